#!/usr/bin/env bash
# Makes this machine ready and prints the path of the Python to use. Everything else goes to stderr.
#
#   tools/setup_machine.sh run      to run the package: Python, a C compiler
#   tools/setup_machine.sh dev      ... and the development tools, which use gcc's sanitizers and the headers of Kerberos
#   tools/setup_machine.sh test     ... and Java and Maven, for the real Kafka, Go, for brokers of franz-go, Valgrind, for the benchmarks, Kerberos, PostgreSQL, and the newest Python
#   tools/setup_machine.sh pythons  only lists "<minor version> <path>" of every supported Python on this machine
#
# What is missing is named with the package to install, or installed when this is root on Debian.
set -euo pipefail
cd "$(dirname "$0")/.."

# Of the Pythons that are tested this one is fetched where it is not found: the system's packages are older.
newest=3.14

say() { printf '%s\n' "$*" >&2; }

# A Python we can build with: CPython of the wanted version, with venv, pip and its C headers.
# It is run, not looked at: a version manager's shim exists for versions that cannot be started.
usable_python() { # path [minor version]
    "$1" - "${2:-}" >/dev/null 2>&1 <<'PY'
import ensurepip, os, sys, sysconfig, venv
have, want = "%d.%d" % sys.version_info[:2], sys.argv[1]
headers = os.path.join(sysconfig.get_path("include"), "Python.h")
good = sys.implementation.name == "cpython" and sys.version_info >= (3, 11) and os.path.exists(headers)
sys.exit(not (good and want in ("", have)))
PY
}

candidates() { # minor versions in order of preference
    type -ap python3 python || true
    for minor in "$@"; do
        type -ap "python$minor" || true
        ls -d "${PYENV_ROOT:-$HOME/.pyenv}/versions/$minor".*/bin/python 2>/dev/null || true
        # Where tools/fetch_python.py puts it.
        ls -d "${XDG_CACHE_HOME:-$HOME/.cache}/aioproducer/python-$minor".*/bin/"python$minor" 2>/dev/null || true
    done
}

find_python() { # [minor version]
    local path
    while read -r path; do
        if usable_python "$path" "${1:-}"; then
            echo "$path"
            return
        fi
    done < <(candidates ${1:-3.11 3.12 3.13 "$newest"})
    return 1
}

list_pythons() {
    local minor path
    for minor in 3.11 3.12 3.13 "$newest"; do
        if path=$(find_python "$minor"); then echo "$minor $path"; fi
    done
}

have_compiler() { echo '#include <stdlib.h>' | "${CC:-cc}" -E - >/dev/null 2>&1; }

# The name alone comes back where there is no such file.
have_sanitizers() { [ -e "$(gcc -print-file-name=libasan.so 2>/dev/null)" ]; }

# From 1.21 on Go fetches the version that a module asks for.
have_go() {
    local minor
    minor=$(go version 2>/dev/null | sed -n 's/.* go1\.\([0-9]*\).*/\1/p')
    [ "${minor:-0}" -ge 21 ]
}

have_java() {
    local version
    version=$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1)
    [ "${version:-0}" -ge 17 ]
}

# The programs of administrators are outside the PATH of users.
have_kdc() {
    local program
    for program in krb5kdc kdb5_util kadmin.local kinit; do
        PATH="$PATH:/usr/sbin" command -v "$program" >/dev/null || return 1
    done
}

have_postgres() { command -v postgres >/dev/null || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; }

# One line for each missing piece: what, and the Debian packages that bring it.
missing() { # level
    find_python >/dev/null || echo "CPython 3.11 or later with venv and headers: python3 python3-venv python3-dev"
    have_compiler || echo "a C compiler with its headers: gcc libc6-dev"
    if [ "$1" != run ]; then
        have_sanitizers || echo "gcc with its sanitizers (libasan, libubsan), to watch the memory of the core: gcc libc6-dev"
        # The package gssapi is compiled.
        command -v krb5-config >/dev/null || echo "the headers of Kerberos: libkrb5-dev"
    fi
    if [ "$1" = test ]; then
        have_java || echo "Java 17 or later: openjdk-17-jdk-headless"
        command -v mvn >/dev/null || echo "Maven: maven"
        have_go || echo "Go 1.21 or later, for brokers of franz-go: golang-go"
        command -v valgrind >/dev/null || echo "Valgrind, for the counted benchmark: valgrind"
        have_postgres || echo "PostgreSQL, for the tests of outboxes: postgresql"
        have_kdc || echo "Kerberos with a KDC, for its tests: krb5-kdc krb5-admin-server krb5-user"
    fi
}

packages() { sed 's/.*: //' <<<"$1" | tr '\n' ' '; }

install_missing() { # level
    local lacks
    lacks=$(missing "$1")
    [ -n "$lacks" ] || return 0
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "Installing what is missing on this machine: $(packages "$lacks")"
        # shellcheck disable=SC2046  # a list of packages
        { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $(packages "$lacks"); } >&2 || true
        lacks=$(missing "$1")
        [ -n "$lacks" ] || return 0
    fi
    say "Missing on this machine (what: its Debian packages):"
    say "$lacks"
    say "On Debian or Ubuntu: sudo apt-get install $(packages "$lacks")"
    exit 1
}

fetch_newest() {
    find_python "$newest" >/dev/null || "$(find_python)" -m tools.fetch_python >&2
}

level=${1:-dev}
case $level in
    run | dev | test)
        install_missing "$level"
        if [ "$level" = test ]; then fetch_newest; fi
        exec "$(find_python)" tools/setup_venv.py "$level"
        ;;
    pythons) list_pythons ;;
    *)
        say "usage: tools/setup_machine.sh run|dev|test|pythons"
        exit 2
        ;;
esac
