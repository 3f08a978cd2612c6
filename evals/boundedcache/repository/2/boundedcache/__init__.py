from boundedcache.lru import LruCache
from boundedcache.ttl import TtlCache

__all__ = ["LruCache", "TtlCache"]
