"""SaslHandshake: the client names its mechanism; a refusal lists those that the broker has.

Behind v0, tokens follow without the header of a request (KIP-152): that ends the connection here. A listener without SASL answers ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

from aioproducer._wire.apis import SASL_HANDSHAKE
from aioproducer._wire.messages.sasl_handshake import SaslHandshakeResponse
from aioproducer.testing.broker.call import Call, Handler, Message


def _answer(call: Call) -> Message:
    session = call.session
    error = call.plan.error()
    code = session.choose(call.request.mechanism) if error is None else session.refuse(error.code, None).code
    listed = session.demanded.mechanisms if session.demanded is not None else ()
    return SaslHandshakeResponse(error_code=code, mechanisms=list(listed))


HANDLER = Handler(SASL_HANDSHAKE, 0, 1, _answer)
