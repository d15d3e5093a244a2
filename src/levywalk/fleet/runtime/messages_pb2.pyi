from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Frame(_message.Message):
    __slots__ = ("sender", "start", "commit", "token", "guardian_certificate", "chunk", "prepare", "prepared", "release", "released", "activate", "alive", "renew", "renewed", "heartbeat", "hello", "refused", "certified", "guard", "guarding", "fenced", "finished", "exposed", "greeting", "sighting", "question", "answer", "revoked", "sized", "withdraw", "withdrawn")
    SENDER_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    GUARDIAN_CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    PREPARE_FIELD_NUMBER: _ClassVar[int]
    PREPARED_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    ACTIVATE_FIELD_NUMBER: _ClassVar[int]
    ALIVE_FIELD_NUMBER: _ClassVar[int]
    RENEW_FIELD_NUMBER: _ClassVar[int]
    RENEWED_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    CERTIFIED_FIELD_NUMBER: _ClassVar[int]
    GUARD_FIELD_NUMBER: _ClassVar[int]
    GUARDING_FIELD_NUMBER: _ClassVar[int]
    FENCED_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    EXPOSED_FIELD_NUMBER: _ClassVar[int]
    GREETING_FIELD_NUMBER: _ClassVar[int]
    SIGHTING_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    SIZED_FIELD_NUMBER: _ClassVar[int]
    WITHDRAW_FIELD_NUMBER: _ClassVar[int]
    WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    sender: int
    start: int
    commit: int
    token: int
    guardian_certificate: bytes
    chunk: bytes
    prepare: Prepare
    prepared: Prepared
    release: Release
    released: Released
    activate: Activate
    alive: Alive
    renew: Renew
    renewed: Renewed
    heartbeat: Heartbeat
    hello: Hello
    refused: Refused
    certified: Certified
    guard: Guard
    guarding: Guarding
    fenced: Fenced
    finished: Finished
    exposed: Exposed
    greeting: Greeting
    sighting: Sighting
    question: Question
    answer: Answer
    revoked: Revoked
    sized: Sized
    withdraw: Withdraw
    withdrawn: Withdrawn
    def __init__(self, sender: _Optional[int] = ..., start: _Optional[int] = ..., commit: _Optional[int] = ..., token: _Optional[int] = ..., guardian_certificate: _Optional[bytes] = ..., chunk: _Optional[bytes] = ..., prepare: _Optional[_Union[Prepare, _Mapping]] = ..., prepared: _Optional[_Union[Prepared, _Mapping]] = ..., release: _Optional[_Union[Release, _Mapping]] = ..., released: _Optional[_Union[Released, _Mapping]] = ..., activate: _Optional[_Union[Activate, _Mapping]] = ..., alive: _Optional[_Union[Alive, _Mapping]] = ..., renew: _Optional[_Union[Renew, _Mapping]] = ..., renewed: _Optional[_Union[Renewed, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ..., certified: _Optional[_Union[Certified, _Mapping]] = ..., guard: _Optional[_Union[Guard, _Mapping]] = ..., guarding: _Optional[_Union[Guarding, _Mapping]] = ..., fenced: _Optional[_Union[Fenced, _Mapping]] = ..., finished: _Optional[_Union[Finished, _Mapping]] = ..., exposed: _Optional[_Union[Exposed, _Mapping]] = ..., greeting: _Optional[_Union[Greeting, _Mapping]] = ..., sighting: _Optional[_Union[Sighting, _Mapping]] = ..., question: _Optional[_Union[Question, _Mapping]] = ..., answer: _Optional[_Union[Answer, _Mapping]] = ..., revoked: _Optional[_Union[Revoked, _Mapping]] = ..., sized: _Optional[_Union[Sized, _Mapping]] = ..., withdraw: _Optional[_Union[Withdraw, _Mapping]] = ..., withdrawn: _Optional[_Union[Withdrawn, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("format", "manifest", "incarnation", "software", "certificate", "nonce", "proof")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    format: int
    manifest: bytes
    incarnation: bytes
    software: str
    certificate: bytes
    nonce: bytes
    proof: bytes
    def __init__(self, format: _Optional[int] = ..., manifest: _Optional[bytes] = ..., incarnation: _Optional[bytes] = ..., software: _Optional[str] = ..., certificate: _Optional[bytes] = ..., nonce: _Optional[bytes] = ..., proof: _Optional[bytes] = ...) -> None: ...

class Epoch(_message.Message):
    __slots__ = ("counter", "seq", "node")
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    counter: int
    seq: int
    node: int
    def __init__(self, counter: _Optional[int] = ..., seq: _Optional[int] = ..., node: _Optional[int] = ...) -> None: ...

class Tensor(_message.Message):
    __slots__ = ("inline", "address")
    INLINE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    inline: bytes
    address: bytes
    def __init__(self, inline: _Optional[bytes] = ..., address: _Optional[bytes] = ...) -> None: ...

class Token(_message.Message):
    __slots__ = ("epoch", "base", "seq", "version", "step", "hop", "distance", "model", "phase", "memory", "switched_at", "diverged_at", "hops", "transfers", "chain", "came_from", "small_messages", "size")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    HOP_FIELD_NUMBER: _ClassVar[int]
    DISTANCE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    SWITCHED_AT_FIELD_NUMBER: _ClassVar[int]
    DIVERGED_AT_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    TRANSFERS_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    CAME_FROM_FIELD_NUMBER: _ClassVar[int]
    SMALL_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    epoch: Epoch
    base: int
    seq: int
    version: int
    step: int
    hop: int
    distance: int
    model: Tensor
    phase: int
    memory: Tensor
    switched_at: int
    diverged_at: int
    hops: int
    transfers: int
    chain: bytes
    came_from: int
    small_messages: int
    size: int
    def __init__(self, epoch: _Optional[_Union[Epoch, _Mapping]] = ..., base: _Optional[int] = ..., seq: _Optional[int] = ..., version: _Optional[int] = ..., step: _Optional[int] = ..., hop: _Optional[int] = ..., distance: _Optional[int] = ..., model: _Optional[_Union[Tensor, _Mapping]] = ..., phase: _Optional[int] = ..., memory: _Optional[_Union[Tensor, _Mapping]] = ..., switched_at: _Optional[int] = ..., diverged_at: _Optional[int] = ..., hops: _Optional[int] = ..., transfers: _Optional[int] = ..., chain: _Optional[bytes] = ..., came_from: _Optional[int] = ..., small_messages: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...

class Certificate(_message.Message):
    __slots__ = ("guardian", "epoch", "seq", "to", "giver", "digest", "signature")
    GUARDIAN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    GIVER_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    guardian: int
    epoch: Epoch
    seq: int
    to: int
    giver: int
    digest: bytes
    signature: bytes
    def __init__(self, guardian: _Optional[int] = ..., epoch: _Optional[_Union[Epoch, _Mapping]] = ..., seq: _Optional[int] = ..., to: _Optional[int] = ..., giver: _Optional[int] = ..., digest: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Opening(_message.Message):
    __slots__ = ("kind", "epoch", "parent", "seq", "step", "digest", "guardian", "signature", "right_epoch", "right_seq", "as_guardian")
    KIND_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    GUARDIAN_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    RIGHT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    RIGHT_SEQ_FIELD_NUMBER: _ClassVar[int]
    AS_GUARDIAN_FIELD_NUMBER: _ClassVar[int]
    kind: str
    epoch: Epoch
    parent: Epoch
    seq: int
    step: int
    digest: bytes
    guardian: int
    signature: bytes
    right_epoch: Epoch
    right_seq: int
    as_guardian: bool
    def __init__(self, kind: _Optional[str] = ..., epoch: _Optional[_Union[Epoch, _Mapping]] = ..., parent: _Optional[_Union[Epoch, _Mapping]] = ..., seq: _Optional[int] = ..., step: _Optional[int] = ..., digest: _Optional[bytes] = ..., guardian: _Optional[int] = ..., signature: _Optional[bytes] = ..., right_epoch: _Optional[_Union[Epoch, _Mapping]] = ..., right_seq: _Optional[int] = ..., as_guardian: _Optional[bool] = ...) -> None: ...

class Right(_message.Message):
    __slots__ = ("release", "link")
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    release: Certificate
    link: Opening
    def __init__(self, release: _Optional[_Union[Certificate, _Mapping]] = ..., link: _Optional[_Union[Opening, _Mapping]] = ...) -> None: ...

class Ending(_message.Message):
    __slots__ = ("guardian", "epoch", "seq", "step", "digest", "signature", "right")
    GUARDIAN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    RIGHT_FIELD_NUMBER: _ClassVar[int]
    guardian: int
    epoch: Epoch
    seq: int
    step: int
    digest: bytes
    signature: bytes
    right: Right
    def __init__(self, guardian: _Optional[int] = ..., epoch: _Optional[_Union[Epoch, _Mapping]] = ..., seq: _Optional[int] = ..., step: _Optional[int] = ..., digest: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., right: _Optional[_Union[Right, _Mapping]] = ...) -> None: ...

class EpochLink(_message.Message):
    __slots__ = ("opening", "right")
    OPENING_FIELD_NUMBER: _ClassVar[int]
    RIGHT_FIELD_NUMBER: _ClassVar[int]
    opening: Opening
    right: Right
    def __init__(self, opening: _Optional[_Union[Opening, _Mapping]] = ..., right: _Optional[_Union[Right, _Mapping]] = ...) -> None: ...

class Prepare(_message.Message):
    __slots__ = ("token", "guardian")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    GUARDIAN_FIELD_NUMBER: _ClassVar[int]
    token: Token
    guardian: int
    def __init__(self, token: _Optional[_Union[Token, _Mapping]] = ..., guardian: _Optional[int] = ...) -> None: ...

class Prepared(_message.Message):
    __slots__ = ("epoch", "seq", "digest")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    epoch: Epoch
    seq: int
    digest: bytes
    def __init__(self, epoch: _Optional[_Union[Epoch, _Mapping]] = ..., seq: _Optional[int] = ..., digest: _Optional[bytes] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("epoch", "seq", "digest", "why")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    epoch: Epoch
    seq: int
    digest: bytes
    why: str
    def __init__(self, epoch: _Optional[_Union[Epoch, _Mapping]] = ..., seq: _Optional[int] = ..., digest: _Optional[bytes] = ..., why: _Optional[str] = ...) -> None: ...

class Release(_message.Message):
    __slots__ = ("epoch", "seq", "to", "digest", "hops", "token")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    epoch: Epoch
    seq: int
    to: int
    digest: bytes
    hops: int
    token: Token
    def __init__(self, epoch: _Optional[_Union[Epoch, _Mapping]] = ..., seq: _Optional[int] = ..., to: _Optional[int] = ..., digest: _Optional[bytes] = ..., hops: _Optional[int] = ..., token: _Optional[_Union[Token, _Mapping]] = ...) -> None: ...

class Released(_message.Message):
    __slots__ = ("certificate",)
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    certificate: Certificate
    def __init__(self, certificate: _Optional[_Union[Certificate, _Mapping]] = ...) -> None: ...

class Withdraw(_message.Message):
    __slots__ = ("epoch", "seq", "hops")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    epoch: Epoch
    seq: int
    hops: int
    def __init__(self, epoch: _Optional[_Union[Epoch, _Mapping]] = ..., seq: _Optional[int] = ..., hops: _Optional[int] = ...) -> None: ...

class Withdrawn(_message.Message):
    __slots__ = ("epoch", "seq", "hops")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    epoch: Epoch
    seq: int
    hops: int
    def __init__(self, epoch: _Optional[_Union[Epoch, _Mapping]] = ..., seq: _Optional[int] = ..., hops: _Optional[int] = ...) -> None: ...

class Activate(_message.Message):
    __slots__ = ("certificate",)
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    certificate: Certificate
    def __init__(self, certificate: _Optional[_Union[Certificate, _Mapping]] = ...) -> None: ...

class Certified(_message.Message):
    __slots__ = ("certificate",)
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    certificate: Certificate
    def __init__(self, certificate: _Optional[_Union[Certificate, _Mapping]] = ...) -> None: ...

class Alive(_message.Message):
    __slots__ = ("epoch", "seq")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    epoch: Epoch
    seq: int
    def __init__(self, epoch: _Optional[_Union[Epoch, _Mapping]] = ..., seq: _Optional[int] = ...) -> None: ...

class Renew(_message.Message):
    __slots__ = ("token", "last")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    token: Token
    last: bool
    def __init__(self, token: _Optional[_Union[Token, _Mapping]] = ..., last: _Optional[bool] = ...) -> None: ...

class Renewed(_message.Message):
    __slots__ = ("epoch", "seq", "step")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    epoch: Epoch
    seq: int
    step: int
    def __init__(self, epoch: _Optional[_Union[Epoch, _Mapping]] = ..., seq: _Optional[int] = ..., step: _Optional[int] = ...) -> None: ...

class Guard(_message.Message):
    __slots__ = ("token", "link", "given")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    GIVEN_FIELD_NUMBER: _ClassVar[int]
    token: Token
    link: EpochLink
    given: Token
    def __init__(self, token: _Optional[_Union[Token, _Mapping]] = ..., link: _Optional[_Union[EpochLink, _Mapping]] = ..., given: _Optional[_Union[Token, _Mapping]] = ...) -> None: ...

class Guarding(_message.Message):
    __slots__ = ("epoch", "seq")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    epoch: Epoch
    seq: int
    def __init__(self, epoch: _Optional[_Union[Epoch, _Mapping]] = ..., seq: _Optional[int] = ...) -> None: ...

class Fenced(_message.Message):
    __slots__ = ("link",)
    LINK_FIELD_NUMBER: _ClassVar[int]
    link: EpochLink
    def __init__(self, link: _Optional[_Union[EpochLink, _Mapping]] = ...) -> None: ...

class Pardon(_message.Message):
    __slots__ = ("node", "epoch", "signature")
    NODE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    node: int
    epoch: Epoch
    signature: bytes
    def __init__(self, node: _Optional[int] = ..., epoch: _Optional[_Union[Epoch, _Mapping]] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Lie(_message.Message):
    __slots__ = ("link", "release", "pardon", "end")
    LINK_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    PARDON_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    link: Opening
    release: Certificate
    pardon: Pardon
    end: Ending
    def __init__(self, link: _Optional[_Union[Opening, _Mapping]] = ..., release: _Optional[_Union[Certificate, _Mapping]] = ..., pardon: _Optional[_Union[Pardon, _Mapping]] = ..., end: _Optional[_Union[Ending, _Mapping]] = ...) -> None: ...

class Exposed(_message.Message):
    __slots__ = ("lie",)
    LIE_FIELD_NUMBER: _ClassVar[int]
    lie: Lie
    def __init__(self, lie: _Optional[_Union[Lie, _Mapping]] = ...) -> None: ...

class Revocation(_message.Message):
    __slots__ = ("node", "epoch", "signature")
    NODE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    node: int
    epoch: Epoch
    signature: bytes
    def __init__(self, node: _Optional[int] = ..., epoch: _Optional[_Union[Epoch, _Mapping]] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Revoked(_message.Message):
    __slots__ = ("word",)
    WORD_FIELD_NUMBER: _ClassVar[int]
    word: Revocation
    def __init__(self, word: _Optional[_Union[Revocation, _Mapping]] = ...) -> None: ...

class FleetSize(_message.Message):
    __slots__ = ("version", "nodes", "mean_smoothness", "signature")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    MEAN_SMOOTHNESS_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    version: int
    nodes: int
    mean_smoothness: float
    signature: bytes
    def __init__(self, version: _Optional[int] = ..., nodes: _Optional[int] = ..., mean_smoothness: _Optional[float] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Sized(_message.Message):
    __slots__ = ("size",)
    SIZE_FIELD_NUMBER: _ClassVar[int]
    size: FleetSize
    def __init__(self, size: _Optional[_Union[FleetSize, _Mapping]] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("epoch", "end", "heard", "edge_version", "edge_up", "degree", "known_degree", "scores")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    HEARD_FIELD_NUMBER: _ClassVar[int]
    EDGE_VERSION_FIELD_NUMBER: _ClassVar[int]
    EDGE_UP_FIELD_NUMBER: _ClassVar[int]
    DEGREE_FIELD_NUMBER: _ClassVar[int]
    KNOWN_DEGREE_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    epoch: Epoch
    end: bytes
    heard: bool
    edge_version: int
    edge_up: bool
    degree: int
    known_degree: int
    scores: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, epoch: _Optional[_Union[Epoch, _Mapping]] = ..., end: _Optional[bytes] = ..., heard: _Optional[bool] = ..., edge_version: _Optional[int] = ..., edge_up: _Optional[bool] = ..., degree: _Optional[int] = ..., known_degree: _Optional[int] = ..., scores: _Optional[_Iterable[float]] = ...) -> None: ...

class Finished(_message.Message):
    __slots__ = ("token", "end")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    token: Token
    end: Ending
    def __init__(self, token: _Optional[_Union[Token, _Mapping]] = ..., end: _Optional[_Union[Ending, _Mapping]] = ...) -> None: ...

class Greeting(_message.Message):
    __slots__ = ("origin", "number", "links", "commits")
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    COMMITS_FIELD_NUMBER: _ClassVar[int]
    origin: bytes
    number: int
    links: bytes
    commits: int
    def __init__(self, origin: _Optional[bytes] = ..., number: _Optional[int] = ..., links: _Optional[bytes] = ..., commits: _Optional[int] = ...) -> None: ...

class Sighting(_message.Message):
    __slots__ = ("origin", "number", "link", "commits", "replaced", "answers")
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    COMMITS_FIELD_NUMBER: _ClassVar[int]
    REPLACED_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    origin: bytes
    number: int
    link: bytes
    commits: int
    replaced: bool
    answers: bytes
    def __init__(self, origin: _Optional[bytes] = ..., number: _Optional[int] = ..., link: _Optional[bytes] = ..., commits: _Optional[int] = ..., replaced: _Optional[bool] = ..., answers: _Optional[bytes] = ...) -> None: ...

class Question(_message.Message):
    __slots__ = ("epoch", "seq", "hops", "phase", "lineage")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    LINEAGE_FIELD_NUMBER: _ClassVar[int]
    epoch: Epoch
    seq: int
    hops: int
    phase: int
    lineage: bytes
    def __init__(self, epoch: _Optional[_Union[Epoch, _Mapping]] = ..., seq: _Optional[int] = ..., hops: _Optional[int] = ..., phase: _Optional[int] = ..., lineage: _Optional[bytes] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("epoch", "seq", "hops", "since", "values")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    epoch: Epoch
    seq: int
    hops: int
    since: int
    values: bytes
    def __init__(self, epoch: _Optional[_Union[Epoch, _Mapping]] = ..., seq: _Optional[int] = ..., hops: _Optional[int] = ..., since: _Optional[int] = ..., values: _Optional[bytes] = ...) -> None: ...
