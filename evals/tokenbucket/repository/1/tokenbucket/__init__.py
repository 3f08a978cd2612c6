from tokenbucket.bucket import TokenBucket

__all__ = ["TokenBucket"]
