// Stands in for OpenAI's library: it sends what it is given.
export default class OpenAI {
  chat = {
    completions: {
      create: async (body) => {
        const response = await fetch(process.env.OPENAI_BASE_URL + "/chat/completions", {
          method: "POST", headers: { Authorization: `Bearer ${process.env.OPENAI_API_KEY}` }, body: JSON.stringify(body),
        });
        return response.json();
      },
    },
  };
}
