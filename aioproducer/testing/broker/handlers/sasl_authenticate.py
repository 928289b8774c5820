"""SaslAuthenticate: a message of the mechanism, and its answer.

v1 adds the lifetime of the session (KIP-368). A refusal closes the connection behind the answer.
"""

from __future__ import annotations

from aioproducer._wire.apis import SASL_AUTHENTICATE
from aioproducer._wire.messages.sasl_authenticate import SaslAuthenticateResponse
from aioproducer.testing.broker.call import Answer, Call, Handler, NoAnswer


def _answer(call: Call) -> Answer:
    error = call.plan.error()
    if error is None:
        step = call.session.answer(call.request.auth_bytes)
    else:
        step = call.session.refuse(error.code, error.message)
    if step is None:
        return NoAnswer(hang_up=True)
    return SaslAuthenticateResponse(
        error_code=step.code,
        error_message=step.message,
        auth_bytes=step.token,
        session_lifetime_ms=step.lifetime_ms,
    )


HANDLER = Handler(SASL_AUTHENTICATE, 0, 2, _answer)
