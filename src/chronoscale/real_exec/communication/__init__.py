"""What ranks send each other: collectives and messages, plain, by way of the host, or held to a rate."""
