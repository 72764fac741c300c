"""How ranks communicate: collectives and point-to-point messages, directly, by way of the host, or held to a bandwidth."""
