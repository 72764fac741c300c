"""FAST: SlimCache, thread-efficient operators, topology-aware sampling."""
