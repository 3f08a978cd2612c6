"""Client for servers of the Model Context Protocol: tools, resources and prompts."""
