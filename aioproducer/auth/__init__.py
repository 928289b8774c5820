"""Tokens for `sasl_token_provider`."""

from __future__ import annotations

from typing import TypeAlias

from aioproducer.auth.aws import AwsCredentials as AwsCredentials
from aioproducer.auth.files import token_file as token_file
from aioproducer.auth.msk import msk_iam as msk_iam
from aioproducer.secret import Token as Token

__all__ = ["AwsCredentials", "GivenToken", "Token", "msk_iam", "token_file"]


GivenToken: TypeAlias = Token | tuple[str, float | None] | str
"""The forms in which a token provider gives a token."""
