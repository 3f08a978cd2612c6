from tokenbucket.bucket import TokenBucket
from tokenbucket.limits import Limits
from tokenbucket.window import SlidingWindow

__all__ = ["Limits", "SlidingWindow", "TokenBucket"]
