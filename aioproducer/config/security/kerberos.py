"""Settings of Kerberos: the login module of Java, and combinations that are refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

__all__ = [
    "KERBEROS",
    "KERBEROS_MODULE",
    "WITHOUT_EFFECT",
    "kerberos_problems",
    "settings_of_kerberos",
    "ticket_cache_in",
]

KERBEROS: Final = "GSSAPI"
KERBEROS_MODULE: Final = "Krb5LoginModule"
# Tickets are got and renewed without kinit, by the library of the system.
WITHOUT_EFFECT: Final = (
    "sasl_kerberos_kinit_",
    "sasl_kerberos_min_time_",
    "sasl_kerberos_ticket_renew_",
)
_PREFIX: Final = "sasl_kerberos_"
_SERVICE: Final = f"{_PREFIX}service_name"
_OF_PASSWORDS: Final = ("sasl_password", "sasl_username")


def settings_of_kerberos(options: Mapping[str, str]) -> dict[str, Any]:
    """The settings that the options of the login module stand for. As in Java, `keyTab` needs `useKeyTab`."""
    found = {
        _SERVICE: options.get("serviceName"),
        "sasl_kerberos_principal": options.get("principal"),
        "sasl_kerberos_keytab": options.get("keyTab") if _is_on(options, "useKeyTab") else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def ticket_cache_in(options: Mapping[str, str]) -> str | None:
    """The ticket cache that the options of the login module name; None for the default one."""
    return options.get("ticketCache") if _is_on(options, "useTicketCache") else None


def _is_on(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "false").lower() == "true"


def kerberos_problems(fields: Mapping[str, Any], given: AbstractSet[str]) -> Iterator[str]:
    """One line, with its fix, for each invalid combination."""
    mechanism = fields["sasl_mechanism"]
    if mechanism != KERBEROS:
        for name in sorted(given):
            if name.startswith(_PREFIX) and fields.get(name) is not None:
                yield f"{name}: has no effect with sasl_mechanism={mechanism!r}: remove it"
        return
    passwords = [name for name in _OF_PASSWORDS if name in given and fields[name] is not None]
    if passwords:
        if "sasl_mechanism" in given:
            yield f"{passwords[0]}: has no effect with sasl_mechanism={KERBEROS!r}: remove it"
        else:
            yield f"sasl_mechanism={KERBEROS!r}: has no user name and password: set it, such as 'SCRAM-SHA-512'"
    elif fields[_SERVICE] is None:
        yield f"{_SERVICE}: is missing: sasl_mechanism={KERBEROS!r} requires it, such as 'kafka'"
