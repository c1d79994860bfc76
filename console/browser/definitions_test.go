package browser

// definitions are a small workspace of a shop.
var definitions = map[string]string{
	"definitions/context.yaml": `
fields:
  environment: { type: string, values: [production, staging] }
  locale:      { type: string, match: language-range }
  plan:        { type: string, values: [free, pro, enterprise] }
  seats:       { type: number }
`,
	"definitions/prompts/support_reply.yaml": `
description: Answers a customer's question in the customer's language.
default: en
variables: { company: { default: Acme }, question: { required: true } }
variants:
  en:
    provider: openai
    model: gpt-6-luna
    max_tokens: 400
    messages:
      - { role: system, content: "You are the support agent of {{company}}. Answer in English." }
      - { role: user,   content: "{{question}}" }
  nl:
    extends: en
    messages:
      - { role: system, content: "Je bent de helpdesk van {{company}}. Antwoord in het Nederlands." }
      - { role: user,   content: "{{question}}" }
columns: [ id, locale, value ]
matrix:
  - [ dutch, nl, nl ]
`,
	"definitions/prompts/summary.yaml": `
variables: { question: { required: true } }
variants:
  only:
    provider: openai
    model: gpt-6-sol
    messages:
      - { role: user, content: "Sum it up: {{question}}" }
`,
	"definitions/prompts/faq.yaml": `
variables: { question: { required: true } }
variants:
  only:
    provider: canned
    extra: { answer: "We will come back to you by mail.", pace: 1ms }
    messages:
      - { role: user, content: "{{question}}" }
`,
	"definitions/endpoints/support_chat.yaml": `
description: The support chat on the website and in the app.
prompt: support_reply
fallback:
  - { provider: canned, extra: { answer: "Thank you for your question. Please write to support@example.com.", pace: 1ms } }
`,
	"definitions/endpoints/summary.yaml": `
prompt: summary
retry: { count: 1 }
fallback:
  - { provider: canned, extra: { answer: "No summary now." } }
`,
	"definitions/endpoints/translate.yaml": `
prompt: summary
max_attempts: 2
retry: { count: 1 }
`,
	"definitions/endpoints/faq.yaml": `
prompt: faq
`,
	"definitions/remoteconfigs/model_limits.yaml": `
description: Requests a minute that an app may send to a model.
type: object
default: { rpm: 60, burst: 10 }
columns: [ environment, plan, seats, value ]
matrix:
  - [ production, enterprise,        100.., { rpm: 6000, burst: 600 } ]
  - [ production, [pro, enterprise], any,   { rpm: 600, burst: 60 } ]
  - [ staging,    any,               any,   { rpm: 30, burst: 5 } ]
`,
	"definitions/remoteconfigs/banner_text.yaml": `
type: string
default: "Welcome! Free delivery this week."
columns: [ locale, value ]
matrix:
  - [ nl-BE,     "Welkom! Deze week gratis levering in heel België." ]
  - [ [de, gsw], "Willkommen! Diese Woche liefern wir gratis." ]
`,
}
