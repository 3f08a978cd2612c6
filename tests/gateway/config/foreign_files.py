"""Configuration files of other programs."""

REAL = """\
{
  // written by the other program
  "numStartups": 12,
  "theme": "dark",
  "modelProfiles": [
    {"name": "Main", "provider": "anthropic", "modelName": "claude-sonnet-4",
     "apiKey": "sk-canary-a", "maxTokens": 8192,
     "contextLength": 200000, "isActive": true, "createdAt": 1700000},
    {"name": "Fast", "provider": "custom-openai", "modelName": "glm-4/air",
     "baseURL": "http://localhost:9/v1", "apiKey": "sk-canary-b",
     "isActive": true, "createdAt": 1700001},
    {"name": "Off", "provider": "openai", "modelName": "gpt-4", "isActive": false},
  ],
  "modelPointers": {"main": "claude-sonnet-4",
    "task": "claude-sonnet-4", "quick": "glm-4/air", "compact": ""},
  "defaultModelName": "Main",
  "mcpServers": {"files": {"type": "stdio", "command": "npx", "args": ["-y", "files"], "env": {}}},
  "projects": {"/home/me/x": {"allowedTools": ["Bash(git diff:*)"],
    "hasTrustDialogAccepted": true}},
}
"""
DESIGN = {
    "modelProfiles": {
        "gpt": {"provider": "openai", "apiKey": "sk-canary", "model": "gpt-5"},
        "near": {"provider": "ollama", "model": "llama3.2", "baseURL": "http://localhost:11434"},
    },
    "defaultModel": "gpt",
    "quickModel": "near",
    "mcpServers": [{"name": "files", "command": "npx", "args": ["files"]}],
}
