from boundedcache.lru import LruCache

__all__ = ["LruCache"]
