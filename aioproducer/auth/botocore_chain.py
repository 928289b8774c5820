"""Credentials from the chain of botocore: environment, profile, container, instance. It reads files and asks servers."""

from __future__ import annotations

import importlib.util
from datetime import datetime
from typing import TYPE_CHECKING, Any

import attrs

from aioproducer.auth.aws import AwsCredentials
from aioproducer.auth.failing import NoTokenError
from aioproducer.errors import ConfigurationError

if TYPE_CHECKING:
    from botocore.session import Session

__all__ = ["BotocoreChain", "require_botocore"]


def require_botocore() -> None:
    """Raise ConfigurationError where botocore is not installed."""
    if importlib.util.find_spec("botocore") is None:
        raise ConfigurationError(
            "finding credentials of AWS requires the extra aws: pip install 'aioproducer[aws]', or use "
            "sasl_token_provider=aioproducer.auth.msk_iam(region, credentials)"
        )


@attrs.frozen
class BotocoreChain:
    """Finds credentials anew at each call, because files and roles may change.

    `profile` is a part of the files of AWS. With `role`, the credentials that are found, or `base`, assume this role: the
    service STS of `sts_region` is asked for others.
    """

    profile: str | None = None
    role: str | None = None
    base: AwsCredentials | None = None
    role_session: str = "aioproducer"
    external_id: str | None = None
    sts_region: str | None = None

    def find(self) -> AwsCredentials:
        """The credentials now; NoTokenError if there are none. It blocks."""
        # No frame of an error has what botocore found.
        try:
            return self._found()
        except NoTokenError:
            raise
        except Exception as error:  # noqa: BLE001  # botocore's text may repeat an answer of a server
            why = type(error).__name__
        raise NoTokenError(f"found no credentials of AWS: botocore raised {why}")

    def _found(self) -> AwsCredentials:
        from botocore.session import Session  # noqa: PLC0415  # an extra, which takes long to import

        session = Session(profile=self.profile)
        return _of_chain(session) if self.role is None else self._of_role(session, self.role)

    def _of_role(self, session: Session, role: str) -> AwsCredentials:
        if self.base is not None:
            token = self.base.session_token
            session.set_credentials(
                self.base.access_key, self.base.secret_key.reveal(), None if token is None else token.reveal()
            )
        client = session.create_client("sts", region_name=self.sts_region)
        optional = {} if self.external_id is None else {"ExternalId": self.external_id}
        answer = client.assume_role(RoleArn=role, RoleSessionName=self.role_session, **optional)
        return _of_answer(answer["Credentials"])


def _of_chain(session: Session) -> AwsCredentials:
    found = session.get_credentials()
    if found is None:
        raise NoTokenError("found no credentials of AWS: botocore knows none")
    frozen = found.get_frozen_credentials()
    # botocore keeps the end of temporary credentials to itself.
    return AwsCredentials(
        frozen.access_key, frozen.secret_key, frozen.token, _seconds(getattr(found, "_expiry_time", None))
    )


def _of_answer(given: dict[str, Any]) -> AwsCredentials:
    return AwsCredentials(
        given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"], _seconds(given["Expiration"])
    )


def _seconds(end: datetime | None) -> float | None:
    return None if end is None else end.timestamp()
