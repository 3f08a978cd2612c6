"""Open the file store at an address: a shared folder or a bucket."""

from importlib.util import find_spec
from pathlib import Path

from agent.errors import ConfigError
from gateway.core.addresses import parse_file_address
from gateway.store.cipher import Cipher
from gateway.store.errors import catalogue_text
from gateway.store.files.file_store import SharedFiles


def open_shared_files(
    address: str, cipher: Cipher | None, *, is_patient: bool = True
) -> SharedFiles:
    """Return the file store for a valid address, without accessing it yet.

    Without `is_patient`, a failed request is retried only once. Raises `ConfigError` if the library
    is not installed.
    """
    place = parse_file_address(address)
    if isinstance(place, Path):
        from gateway.store.files.folder import FolderObjects

        return SharedFiles(FolderObjects(place), cipher)
    if find_spec("obstore") is None:
        raise ConfigError(
            catalogue_text("store.files names an S3 bucket, but obstore is not installed"),
            hint="pip install 'kore-assistant[s3]'",
        )
    from gateway.store.files.s3 import RetryLimits, S3Objects

    limits = RetryLimits() if is_patient else RetryLimits(retries=1, total_s=5.0, silence_s=5.0)
    return SharedFiles(S3Objects(place, limits), cipher)
