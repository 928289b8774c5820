"""The login module of Amazon MSK, which stands for OAUTHBEARER with tokens that credentials of AWS sign."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from aioproducer.config.endpoints import Endpoint

__all__ = ["IAM", "IAM_MODULE", "iam_problems", "region_of"]

IAM: Final = "AWS_MSK_IAM"
IAM_MODULE: Final = "IAMLoginModule"
_BROKER: Final = re.compile(
    r".+\.kafka(?:-serverless)?\.(?P<region>[a-z]{2,}(?:-[a-z0-9]+)+)\.amazonaws\.com(?:\.cn)?\.?"
)


def region_of(servers: Iterable[Endpoint]) -> str | None:
    """The region in the host names of the brokers; None if they are not names of MSK."""
    found = (_BROKER.fullmatch(server.host) for server in servers)
    return next((match["region"] for match in found if match is not None), None)


def iam_problems(options: Mapping[str, str], servers: Iterable[Endpoint]) -> Iterator[str]:
    """One line, with its fix, for each fault of the options of the login module."""
    if region_of(servers) is None:
        yield (
            "sasl_jaas_config: no region of AWS is in the host names of bootstrap_servers: use sasl_mechanism='OAUTHBEARER' "
            "and sasl_token_provider=aioproducer.auth.msk_iam(region)"
        )
    if "awsProfileName" in options and "awsRoleArn" in options:
        yield "sasl_jaas_config: awsProfileName and awsRoleArn exclude each other: remove one of the two"
    if ("awsRoleAccessKeyId" in options) != ("awsRoleSecretAccessKey" in options):
        yield "sasl_jaas_config: awsRoleAccessKeyId and awsRoleSecretAccessKey belong together"
