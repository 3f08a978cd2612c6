from boundedcache.lru import LruCache
from boundedcache.memoize import memoize
from boundedcache.ttl import TtlCache

__all__ = ["LruCache", "TtlCache", "memoize"]
