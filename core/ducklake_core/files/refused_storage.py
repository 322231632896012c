"""Says in words of people why an object store took no file, and what helps. Pure; no secret is in it."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_CHAIN = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, web identity or the role of the machine"
# As pyarrow's client and s3fs name them.
_MISSING = re.compile(r"NO_SUCH_BUCKET|NoSuchBucket|specified bucket does not exist")
_UNKNOWN = re.compile(
    r"INVALID_ACCESS_KEY_ID|InvalidAccessKeyId|SIGNATURE_DOES_NOT_MATCH|SignatureDoesNotMatch|EXPIRED_TOKEN"
    r"|ExpiredToken|INVALID_CLIENT_TOKEN_ID|Unable to locate credentials"
)
_DENIED = re.compile(r"ACCESS_DENIED|AccessDenied|Access Denied|Forbidden")
_AWAY = re.compile(r"NETWORK_CONNECTION|Could not connect|Connection refused")


def told_reason(root: str, error: BaseException) -> str:
    """Return why no file could be written below a root; what nobody knows is told as the client says it."""
    bucket, told = urlsplit(root).netloc.rpartition("@")[2], str(error)
    if not bucket:
        return told
    if _MISSING.search(told):
        return f"there is no bucket '{bucket}', which must be created first ({told})"
    if _UNKNOWN.search(told):
        return f"bucket '{bucket}' does not know the credentials of this process, which come from {_CHAIN} ({told})"
    if _DENIED.search(told):
        rights = "s3:PutObject, s3:GetObject, s3:DeleteObject and s3:ListBucket"
        return (
            f"this process may not write to bucket '{bucket}': it needs {rights}, with credentials from {_CHAIN} "
            f"({told})"
        )
    if _AWAY.search(told):
        return f"nobody answers for bucket '{bucket}', by this network, region and endpoint ({told})"
    return told
