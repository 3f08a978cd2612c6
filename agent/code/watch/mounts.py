"""Network file systems: the kernel does not report changes made by other computers."""

import re
from pathlib import Path

MOUNTINFO = Path("/proc/self/mountinfo")
_NETWORK = frozenset(
    (
        *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "drvfs", "glusterfs", "gpfs"),
        *("lustre", "ncpfs", "nfs", "nfs4", "prl_fs", "smb3", "smbfs", "vboxsf", "virtiofs"),
        *("fuse.davfs2", "fuse.gcsfuse", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs"),
        *("fuse.sshfs", "fuse.vmhgfs-fuse", "vmhgfs"),
    )
)


def mount_types(text: str) -> dict[str, str]:
    """Return the file system type of each mount point; the last mount wins."""
    types = {}
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.partition(" ")[0]
        if len(fields) > 4 and kind:
            # Spaces and some other characters are octal escapes.
            folder = re.sub(r"\\([0-7]{3})", lambda number: chr(int(number[1], 8)), fields[4])
            types[folder] = kind
    return types


def network_mounts(mountinfo: Path = MOUNTINFO) -> list[str]:
    """Return the mount points of network file systems; none when the system does not list them."""
    return [folder for folder, kind in _read(mountinfo).items() if kind in _NETWORK]


def is_on_network(path: Path, mountinfo: Path = MOUNTINFO) -> bool:
    types = _read(mountinfo)
    mount_point = next(
        (str(folder) for folder in (path, *path.parents) if str(folder) in types), ""
    )
    return types.get(mount_point) in _NETWORK


def _read(mountinfo: Path) -> dict[str, str]:
    try:
        return mount_types(mountinfo.read_text("utf-8", "surrogateescape"))
    except OSError:
        return {}
