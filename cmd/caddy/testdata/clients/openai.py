"""Stands in for OpenAI's library: it takes the same arguments, and sends them."""
import json, os, types, urllib.request

class OpenAI:
    def __init__(self):
        self.chat = types.SimpleNamespace(completions=self)

    def create(self, *, messages, model, temperature=None, max_tokens=None, top_p=None, frequency_penalty=None,
               presence_penalty=None, seed=None, stop=None, reasoning_effort=None, response_format=None,
               tools=None, tool_choice=None):
        body = {name: value for name, value in locals().items() if name != "self" and value is not None}
        request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
                                         {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.load(response, object_hook=lambda members: types.SimpleNamespace(**members))
