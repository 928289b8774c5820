"""The common parts of all commands: usage, help, version, missing packages, and the time to start."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import aioproducer
from aioproducer.cli import main, program
from tests.cli.program import environment
from tests.repo.source import ROOT

COMMANDS = ["demo", "produce", "perf", "broker", "verifiable-producer"]
SEND = ["--bootstrap-server", "localhost:9092", "--topic", "t"]
PERF = ["perf", *SEND, "--num-records", "10", "--throughput", "-1"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "Missing command; see 'aioproducer --help'"),
        (["frobnicate"], "'frobnicate'"),
        (["demo", "--records", "many"], "Invalid value for '--records': must be a whole number;"),
        (["demo", "--tasks", "0"], "0 is not in the range 1<=x<=10000"),
        (["broker", "--port", "70000"], "70000 is not in the range 0<=x<=65535"),
        (["broker", "--brokers", "0"], "0 is not in the range 1<=x<=100"),
        (["produce", "--topic", "t"], "bootstrap.servers is missing"),
        (["produce", "--bootstrap-server", "localhost:9092"], "'--topic'"),
        (["produce", *SEND, "--topic", "a/b"], "a topic name must consist of ASCII letters"),
        (["produce", *SEND, "nowhere.txt"], "nowhere.txt"),
        (["produce", *SEND, "--header", "plain"], "must be NAME=VALUE"),
        (["produce", *SEND, "--delimiter", r"\q"], r"only \n, \t, \r, \0, \\ and \x1e are supported"),
        (["produce", *SEND, "--key-separator", ""], "must not be empty"),
        (["produce", *SEND, "--format", "jsonl", "--key-separator", ":"], "requires --format lines"),
        (["produce", *SEND, "--property", "linger.ms=soon"], "linger.ms='soon'"),
        (["produce", *SEND, "--property", "lingerms=5"], "did you mean linger"),
        (["produce", *SEND, "--compression", "brotli"], "compression.type='brotli'"),
        (PERF, "exactly one of --record-size, --payload-file and --payload-monotonic"),
        ([*PERF, "--record-size", "10", "--payload-monotonic"], "exactly one of"),
        ([*PERF, "--record-size", "10", "--warmup-records", "10"], "must be fewer than --num-records"),
        ([*PERF, "--record-size", "10", "--throughput", "0"], "must be above 0, or -1"),
        ([*PERF, "--record-size", "10", "--throughput", "-2"], "must be above 0, or -1"),
        ([*PERF, "--record-size", "10", "--throughput", "nan"], "'nan' is not a finite number"),
        ([*PERF, "--record-size", "10", "--throughput", "inf"], "'inf' is not a finite number"),
        ([*PERF, "--record-size", "10", "--wait", "nan"], "'nan' is not a finite number"),
        (
            [*PERF, "--record-size", "10", "--embedded", "--bootstrap-server", "b:1"],
            "--bootstrap-server or --embedded, not both",
        ),
        ([*PERF, "--record-size", "10", "--wait", "inf"], "'inf' is not a finite number"),
        ([*PERF, "--record-size", "10", "--reporting-interval", "9" * 400], "is not in the range 1<=x<="),
        ([*PERF, "--record-size", "10", "--num-records", "9" * 400], "is not in the range 1<=x<="),
        (["produce", *SEND, "--wait", "nan"], "'nan' is not a finite number"),
        (["audit", *SEND, "--split", "9" * 400], "is not in the range 1<=x<="),
        (["audit", *SEND, "--expect", "shop=" + "9" * 5000], "is larger than the largest number of a source"),
        ([*PERF, "--record-size", "10", "--transactional-id", ""], "transactional.id=''"),
        ([*PERF, "--record-size", "10", "--transaction-duration-ms", "0"], "0 is not in the range 1<=x<="),
        ([*PERF, "--record-size", "10", "--plot", "perf.pdf"], "must end in .png or .svg"),
        ([*PERF, "--record-size", "10", "--plot", "no/where.png"], "the folder 'no' does not exist"),
        (["audit", *SEND, "--picture", "audit.txt"], "must end in .png or .svg"),
        (["audit", *SEND, "--picture", "no/where.png"], "the folder 'no' does not exist"),
        (["audit", *SEND, "--json", "no/where.json"], "the folder 'no' does not exist"),
        ([*PERF, "--record-size", "10", "--command-property", "acks=9", "linger.ms=x"], "linger.ms='x'"),
    ],
)
def test_wrong_usage_is_one_line(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wrong usage ends with exit code 2, and one line on stderr has the reason."""
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert complaint in err
    assert err.startswith("aioproducer: ")
    assert (len(err.splitlines()), out) == (1, "")


CANARY = "canary7"
SIZED = [*PERF, "--record-size", "10"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["produce", *SEND, "-X", "sasl.password=", CANARY], "sasl.password: other users of this machine"),
        (["produce", *SEND, "-X", "sasl.jaas.config=x", "required", f"password={CANARY};"], "other users"),
        (["produce", *SEND, "-X", "sasl.password", CANARY], "must be NAME=VALUE"),
        (["produce", *SEND, "-X", f"sasl.password:{CANARY}"], "must be NAME=VALUE"),
        (["produce", *SEND, "-X", f"={CANARY}"], "must be NAME=VALUE"),
        (["produce", *SEND, "-X", f"{CANARY}=1"], "no such setting; it is not shown"),
        (["produce", *SEND, "-X", f"acks=all sasl.password={CANARY}"], "acks: must be 'all'"),
        (["produce", *SEND, "-H", CANARY], "must be NAME=VALUE"),
        (["produce", *SEND, "-p", CANARY], "must be a whole number"),
        (["produce", *SEND, "--wait", CANARY], "must be a number"),
        (["produce", *SEND, f"--password={CANARY}"], "No such option"),
        (["produce", *SEND, "--config", f"sasl.password={CANARY}"], "'sasl.password=…' does not exist"),
        (["produce", *SEND, f"--config=sasl.password={CANARY}"], "'sasl.password=…' does not exist"),
        (["produce", *SEND, "--format", f"password='{CANARY}'"], "password=…"),
        (["produce", *SEND, "-b", f"a:1 sasl.password={CANARY}"], "has the text of another setting"),
        ([*SIZED, CANARY], "Got unexpected extra argument;"),
        ([*SIZED, "--command-property", "sasl.jaas.config=x", f"password={CANARY};"], "other users"),
        (["doctor", CANARY, f"a\n{CANARY}"], "Got unexpected extra arguments;"),
        (["verifiable-producer", *SEND, CANARY], "Got unexpected extra argument;"),
        (["verifiable-producer", *SEND, "--acks", f"password={CANARY}"], "'password=…' is not one of"),
        ([f"password={CANARY}"], "'password=…'"),
    ],
)
def test_wrong_usage_shows_no_part_of_a_password(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Texts behind an equals sign and arguments without a place are left out: logs of jobs keep the messages."""
    assert main(arguments) in (1, 2)
    out, err = capsys.readouterr()
    assert complaint in err
    assert CANARY not in out + err


def test_lines_of_a_file_that_are_no_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command names the lines of the file, and shows none of them."""
    file = tmp_path / "client.properties"
    file.write_text(
        f"security.protocol=SSL\nssl.keystore.key=-----BEGIN PRIVATE KEY-----\n{CANARY}/+\n-----END PRIVATE KEY-----\n{CANARY}\n"
    )
    for arguments in (
        ["produce", *SEND, "--config", str(file)],
        ["doctor", "-b", "a:1", "--config", str(file)],
        [*SIZED, "--command-config", str(file)],
        ["verifiable-producer", *SEND, "--command-config", str(file)],
    ):
        assert main(arguments) in (1, 2)
        out, err = capsys.readouterr()
        words = " ".join((out + err).split())
        assert "ssl.keystore.key: PEM text of several lines needs" in words
        assert "line 5: no such setting" in words
        assert CANARY not in words


@pytest.mark.parametrize(
    "arguments",
    [
        ["audit", *SEND, "--picture", "a.png"],
        ["audit", *SEND, "--json", "a.json"],
        [*PERF, "--record-size", "10", "--plot", "a.svg"],
    ],
)
@pytest.mark.parametrize("there", [False, True])
def test_files_that_cannot_be_written_are_refused_before_the_work(
    arguments: list[str],
    there: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A file, or a folder for it, that cannot be written is reported before anything is read or sent."""
    file = tmp_path / arguments[-1]
    if there:
        file.touch()
    refused = file if there else tmp_path
    monkeypatch.setattr(os, "access", lambda path, mode: (Path(path), mode) != (refused, os.W_OK))
    assert main([*arguments[:-1], str(file)]) == 2
    assert f"'{file}' cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("module", ["aioproducer.cli.program", "aioproducer.cli.demo"])
def test_ctrl_c_while_it_is_imported_is_silent(
    module: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C before a command has begun ends with 130, as shells have it, and without a word."""

    class Interrupts:
        """A finder of modules during which Ctrl-C is pressed."""

        def find_spec(self, name: str, *_: object) -> None:
            """Interrupt the import of that module."""
            if name == module:
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupts(), *sys.meta_path])
    assert main(["demo", "--records", "1"]) == 130
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """--help says what the command does and shows a call of it, in lines that fit."""
    assert main([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert "Example" in text
    assert f"\n    aioproducer {command} " in text
    assert max(map(len, text.splitlines())) <= 80


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """--help names every command."""
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    listed = re.findall(r"^  (\S+)", text.split("Commands:\n")[1].split("\n\n")[0], re.MULTILINE)
    assert listed == list(program.COMMANDS)
    assert set(COMMANDS) < set(listed)


def test_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """--version prints it and ends well."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"aioproducer {aioproducer.__version__}\n"


@pytest.mark.parametrize(
    ("missing", "way"),
    [
        ("rich", ["-m", "aioproducer", "demo"]),
        ("click", ["-c", "import sys; from aioproducer.cli import main; sys.exit(main())"]),
    ],
    ids=["module without rich", "entry point without click"],
)
def test_what_is_not_installed_is_named(missing: str, way: list[str], tmp_path: Path) -> None:
    """Without click or rich one line says what to install, and the exit code is 2."""
    (tmp_path / "sitecustomize.py").write_text(f"import sys; sys.modules[{missing!r}] = None")
    done = subprocess.run(
        [sys.executable, "-W", "error", *way],
        cwd=ROOT,
        env=environment(PYTHONPATH=f"{tmp_path}:{ROOT}"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == (f"aioproducer: the command line needs {missing}: pip install 'aioproducer[cli]'\n")


def test_help_loads_no_more_than_it_needs() -> None:
    """Modules that draw, plot or serve are not imported to print the help."""
    code = (
        "import sys; from aioproducer.cli import main; main(['--help'])\n"
        "heavy = {'rich.console', 'rich.progress', 'matplotlib', 'aioproducer.testing'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
