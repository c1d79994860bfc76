package invoke

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tiktoken-go/tokenizer/codec"

	"github.com/cadenza-gateway/cadenza/providers"
)

// corpus are texts of many kinds, of some kilobytes each.
func corpus(t testing.TB) map[string]string {
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	random := rand.New(rand.NewPCG(1, 2))
	of := func(alphabet string) string {
		all, b := []rune(alphabet), strings.Builder{}
		for b.Len() < 3000 {
			b.WriteRune(all[random.IntN(len(all))])
		}
		return b.String()
	}
	const lower, digits = "abcdefghijklmnopqrstuvwxyz", "0123456789"
	upper, signs := strings.ToUpper(lower), "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
	many := func(text string) string { return strings.Repeat(text, 3000/len(text)) }
	return map[string]string{
		"markdown":   read("../../docs/apis.md"),
		"go":         read("engine.go"),
		"json":       many(`{"city": "Den Haag", "days": [1, 2.5, null], "nested": {"a": true}}` + "\n"),
		"yaml":       many("targets:\n  - { provider: openai, model: gpt-4o-mini }\n    retries: 3\n"),
		"english":    many("The quick brown fox jumps over the lazy dog, and nobody asks why it did so. "),
		"dutch":      many("De gemeenteraadsverkiezingen zijn volgend jaar; wie mag er eigenlijk meestemmen? "),
		"german":     many("Die Rindfleischetikettierungsüberwachungsaufgabenübertragung ist längst abgeschafft. "),
		"french":     many("L’été dernier, nous avons passé quelques semaines au bord de la mer, n’est-ce pas ? "),
		"finnish":    many("Epäjärjestelmällistyttämättömyydellänsäkäänköhän hän sitten pärjäisi täällä? "),
		"turkish":    many("Çekoslovakyalılaştıramadıklarımızdan mısınız, yoksa değil misiniz? "),
		"vietnamese": many("Tôi muốn biết hôm nay thời tiết ở Hà Nội như thế nào, có mưa không? "),
		"polish":     many("Chrząszcz brzmi w trzcinie w Szczebrzeszynie, w szczękach chrząszcza trzeszczy miąższ. "),
		"russian":    many("Съешь же ещё этих мягких французских булок, да выпей чаю. "),
		"greek":      many("Ξεσκεπάζω την ψυχοφθόρα βδελυγμία, και ύστερα τίποτα. "),
		"hebrew":     many("דג סקרן שט בים מאוכזב ולפתע מצא חברה. "),
		"arabic":     many("نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر. "),
		"hindi":      many("ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश। "),
		"thai":       many("เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน "),
		"chinese":    many("天地玄黄,宇宙洪荒。日月盈昃,辰宿列张。寒来暑往,秋收冬藏。"),
		"japanese":   many("いろはにほへと ちりぬるを 我が世誰ぞ 常ならむ。カタカナも。"),
		"korean":     many("키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다. "),
		"amharic":    many("ሰማይ አይታረስ ንጉሥ አይከሰስ። ብላ ካለኝ እንደአባቴ በቆመጠኝ። "),
		"emoji":      of("😀😃🌍🚀👩‍💻🇳🇱❤️🧑🏽‍🚒"),
		"rare":       of("㐀㐁㐂𠀀𠀁龘靐齉ꙮ𒀀𝔄"),
		"base64":     of(lower + upper + digits + "+/"),
		"hex":        of("abcdef" + digits),
		"digits":     of(digits),
		"lower":      of(lower), "upper": of(upper), "mixed": of(lower + upper), "signs": of(signs),
		"consonants": of("qxzjkvw"), "CONSONANTS": of("QXZJKVW"), "shouting": of("qQxXzZ"),
		"ascii":        of(lower + upper + digits + signs + " \n"),
		"space":        of(" \t\n"),
		"control":      of("\x00\x01\x02\x03\x7f"),
		"invalid":      strings.Repeat("\xff\xc3", 1500),
		"indented":     many("\t\t\tif x {\n        return  y\n"),
		"letters":      many("x y z\nq\nw\n"),
		"single signs": many("a,b;c.d 1 2 é ü "),
	}
}

// TestMostTokensIsABound checks the bound with the tokenizers of GPT-4o, GPT-4, GPT-3,
// and GPT-2.
func TestMostTokensIsABound(t *testing.T) {
	all := []*codec.Codec{codec.NewO200kBase(), codec.NewCl100kBase()}
	older := []*codec.Codec{codec.NewP50kBase(), codec.NewR50kBase()}
	for name, text := range corpus(t) {
		text = text[:min(len(text), 6000)]
		most := MostTokens([]providers.Message{{Role: "user", Content: providers.Escape(text)}}, nil)
		tokenizers := append(all, older...)
		if name == "consonants" || name == "space" {
			tokenizers = all // GPT-3's know fewer of such texts, which are none
		}
		for _, c := range tokenizers {
			n, err := c.Count(text)
			if err != nil {
				t.Fatal(err)
			}
			if int64(n) > most {
				t.Errorf("%s: %s has %d tokens of %d bytes, the bound is %d", name, c.GetName(), n, len(text), most)
			}
		}
		if n, _ := all[1].Count(text); most > int64(6*n+20) && name != "indented" && name != "space" && name != "digits" {
			t.Errorf("%s: %d tokens of %d bytes, and the bound is %d", name, n, len(text), most)
		}
	}
	// Each pair of bytes, and words of three to six letters, again and again.
	check := func(text string) {
		most := int64(sharesOf(text)) / sharesOfToken
		for _, c := range all {
			if n, _ := c.Count(text); int64(n) > most {
				t.Errorf("%s: %q has %d tokens, the bound is %d", c.GetName(), text, n, most)
			}
		}
	}
	for a := byte(1); a < 0x80; a++ {
		for b := byte(1); b < 0x80; b++ {
			check(strings.Repeat(string([]byte{a, b}), 6))
		}
	}
	random := rand.New(rand.NewPCG(3, 4))
	for i := range 5000 {
		word := make([]byte, 3+i%4)
		for i := range word {
			word[i] = byte('a' + random.IntN(26))
		}
		check(strings.Repeat(string(word), 8))
	}
}

// TestMostTokensCountsEverything adds the members of a request one by one.
func TestMostTokensCountsEverything(t *testing.T) {
	text := strings.Repeat("x1", 50) // a token a byte
	for name, test := range map[string]struct {
		messages []providers.Message
		tools    []providers.Tool
		most     int64 // at least
		count    int64 // by CountTokens, exactly
	}{
		"nothing":   {count: 3},
		"content":   {messages: []providers.Message{{Content: providers.Escape(text)}}, most: 100, count: 107},
		"text":      {messages: []providers.Message{{Parts: []providers.Part{{Text: providers.Escape(text)}}}}, most: 100, count: 107},
		"call":      {messages: []providers.Message{{Parts: []providers.Part{{Kind: providers.PartToolCall, Call: providers.ToolCall{Name: text, Arguments: text}}}}}, most: 200, count: 207},
		"result":    {messages: []providers.Message{{Parts: []providers.Part{{Kind: providers.PartToolResult, Result: providers.ToolResult{Content: []providers.Part{{Text: providers.Escape(text)}}}}}}}, most: 100, count: 107},
		"thought":   {messages: []providers.Message{{Parts: []providers.Part{{Kind: providers.PartThinking, Opaque: text}}}}, most: 25, count: 7},
		"image":     {messages: []providers.Message{{Parts: []providers.Part{{Kind: providers.PartImage}}}}, most: 5000, count: 1007},
		"sound":     {messages: []providers.Message{{Parts: []providers.Part{{Kind: providers.PartAudio, Media: providers.Media{Data: strings.Repeat("A", 16000)}}}}}, most: 6000, count: 1007},
		"file":      {messages: []providers.Message{{Parts: []providers.Part{{Kind: providers.PartFile}}}}, most: 5000, count: 1007},
		"tool":      {tools: []providers.Tool{{Name: text, Description: text, Parameters: []byte(`"` + text + `"`)}}, most: 1302, count: 312},
		"two of it": {messages: []providers.Message{{Content: providers.Escape(text)}, {Content: providers.Escape(text)}}, most: 200, count: 211},
	} {
		t.Run(name, func(t *testing.T) {
			most, count := MostTokens(test.messages, test.tools), CountTokens(test.messages, test.tools)
			if most < test.most || most > test.most+100 {
				t.Errorf("at most %d tokens, want %d and the tokens around them", most, test.most)
			}
			if count != test.count || count > most {
				t.Errorf("%d tokens, want %d", count, test.count)
			}
		})
	}
}

// TestCountTokens compares with the tokenizer's own count of the whole text.
func TestCountTokens(t *testing.T) {
	c := cl100k()
	for name, text := range corpus(t) {
		text = string([]rune(text)) // valid UTF-8, as all texts of messages are
		want, _ := c.Count(text)
		got := CountTokens([]providers.Message{{Content: providers.Escape(text)}}, nil) - tokensOfPrompt - tokensOfMessage
		if d := float64(got-int64(want)) / float64(want); d < -0.02 || d > 0.02 {
			t.Errorf("%s: %d tokens, the tokenizer has %d", name, got, want)
		}
		if name == "space" {
			continue // a token of many spaces is cut
		}
		// A long text is counted by samples.
		long := strings.Repeat(text, (10*maxCounted)/len(text))
		want *= (10 * maxCounted) / len(text)
		got = CountTokens([]providers.Message{{Content: providers.Escape(long)}}, nil)
		if d := float64(got-int64(want)) / float64(want); d < -0.1 || d > 0.1 {
			t.Errorf("%s: %d tokens of %d bytes, the tokenizer has %d", name, got, len(long), want)
		}
	}
}

// TestLongPromptsAreCountedInParts has messages of two kinds by turns, so that samples
// of every second one would be of one kind.
func TestLongPromptsAreCountedInParts(t *testing.T) {
	var messages []providers.Message
	for range 1000 {
		messages = append(messages, providers.Message{Content: providers.Escape(strings.Repeat("word ", 40))}, providers.Message{Content: providers.Escape(strings.Repeat("7z", 100))})
	}
	want := int64(1000*(41+200) + 2000*tokensOfMessage)
	if got := CountTokens(messages, nil); got < want*9/10 || got > want*11/10 {
		t.Errorf("%d tokens, want about %d", got, want)
	}
}

// TestCountingIsBounded has texts that take the tokenizer long.
func TestCountingIsBounded(t *testing.T) {
	for name, text := range map[string]string{"white space": " \t\n\r ", "one word": "x", "letters": "aQ"} {
		text = strings.Repeat(text, (4<<20)/len(text))
		began := time.Now()
		CountTokens([]providers.Message{{Content: providers.Escape(text)}}, nil)
		// The race detector makes it ten times as long.
		if took := time.Since(began); took > 2*time.Second && !raceEnabled {
			t.Errorf("%s: %s for 4 MiB", name, took)
		}
	}
}

// TestTightTokensHaveAMargin compares with what Claude's tokenizers count: up to 54
// percent more than cl100k.
func TestTightTokensHaveAMargin(t *testing.T) {
	for name, text := range corpus(t) {
		text = string([]rune(text)) // valid UTF-8, as all texts of messages are
		messages := []providers.Message{{Content: providers.Escape(text)}}
		n, _ := cl100k().Count(text)
		tight, most := TightTokens(messages, nil), MostTokens(messages, nil)
		if tight > most || tight < min(most, int64(float64(n)*1.54)) {
			t.Errorf("%s: %d tokens, of which cl100k has %d and %d are the bound", name, tight, n, most)
		}
		if name == "english" && tight > most*3/4 {
			t.Errorf("%d tokens are no closer than the bound, %d", tight, most)
		}
	}
	// For parts without text the two bounds are the same.
	media := []providers.Message{{Parts: []providers.Part{{Kind: providers.PartImage}, {Kind: providers.PartThinking, Opaque: strings.Repeat("x", 400)}}}}
	tools := []providers.Tool{{Name: "a"}}
	if tight, most := TightTokens(media, tools), MostTokens(media, tools); tight < most-4 || most < tokensPerMedia+100+tokensForTools+tokensPerTool {
		t.Errorf("%d tokens, the bound is %d", tight, most)
	}
}

// TestSchemasCount is about JSON that the model reads in addition to messages
// and tools.
func TestSchemasCount(t *testing.T) {
	schema := json.RawMessage(`"` + strings.Repeat("x1", 50) + `"`)
	for name, count := range map[string]func([]providers.Message, []providers.Tool, ...json.RawMessage) int64{
		"most": MostTokens, "tight": TightTokens, "count": CountTokens,
	} {
		if more := count(nil, nil, schema, schema) - count(nil, nil); more < 200 || more > 330 {
			t.Errorf("%s: two schemas of 100 tokens have %d", name, more)
		}
	}
	target := target("a", scripted(script{steps: []step{{say: "fine"}}, result: providers.Result{FinishReason: "stop"}}))
	target.Parameters.ResponseFormat = &providers.ResponseFormat{Type: providers.FormatSchema, Schema: schema}
	r, _, _ := run(t, &Call{Targets: []Target{target}, Messages: []providers.Message{{Content: "1234"}}})
	if n := r.Attempts[0].PromptTokens; n < 110 || n > 120 {
		t.Errorf("an estimate of a prompt with a schema: %d tokens", n)
	}
}

func FuzzMostTokens(f *testing.F) {
	for _, text := range corpus(f) {
		f.Add(text[:min(len(text), 200)])
	}
	f.Fuzz(func(t *testing.T, text string) {
		messages := []providers.Message{{Content: providers.Escape(text)}}
		if most, count := MostTokens(messages, nil), CountTokens(messages, nil); count > most {
			t.Errorf("%q has %d tokens, the bound is %d", text, count, most)
		}
	})
}

// benchmarkTokens counts the same text again and again, as calls with the prompt
// of a definition do, and an answer whose words were counted before.
func benchmarkTokens(b *testing.B, count func([]providers.Message, []providers.Tool, ...json.RawMessage) int64) {
	for _, kind := range []string{"markdown", "chinese", "base64"} {
		for name, size := range map[string]int{"1KB": 1000, "1MB": 1_000_000} {
			b.Run(kind+"/"+name, func(b *testing.B) {
				text := corpus(b)[kind]
				text = strings.Repeat(text, size/len(text)+1)[:size]
				messages := []providers.Message{{Content: providers.Escape(text)}}
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					count(messages, nil)
				}
			})
		}
	}
}

func BenchmarkTightTokens(b *testing.B) { benchmarkTokens(b, TightTokens) }
func BenchmarkMostTokens(b *testing.B)  { benchmarkTokens(b, MostTokens) }
func BenchmarkCountTokens(b *testing.B) { benchmarkTokens(b, CountTokens) }

// TestPartlyCountedAnswers break off after the provider counted the prompt, as
// Anthropic's API does at the beginning, or more.
func TestPartlyCountedAnswers(t *testing.T) {
	text := strings.Repeat("word ", 100)
	for name, test := range map[string]struct {
		counted   providers.Usage
		broken    bool
		want      string
		estimated bool
	}{
		"the prompt alone": {providers.Usage{PromptTokens: 50, CompletionTokens: 1, TotalTokens: 51, CachedTokens: 40, Tier: "flex"}, true, "50+101", true},
		"about all":        {providers.Usage{PromptTokens: 50, CompletionTokens: 70, TotalTokens: 120, CachedTokens: 40, Tier: "flex"}, true, "50+70", false},
		"a tier, no token": {providers.Usage{Tier: "flex"}, true, "9+101", true},
		"an empty answer":  {providers.Usage{PromptTokens: 50, TotalTokens: 50}, true, "50+0", false},
		"the sum alone":    {providers.Usage{TotalTokens: 500}, true, "0+0", false},
		"whole":            {providers.Usage{PromptTokens: 50, CompletionTokens: 1, TotalTokens: 51, CachedTokens: 40, Tier: "flex"}, false, "50+1", false},
	} {
		s := script{steps: []step{{say: text}}, result: providers.Result{FinishReason: "stop", Usage: test.counted}}
		if test.counted.CompletionTokens == 0 && test.counted.PromptTokens > 0 {
			s.steps[0] = step{piece: providers.Delta{Calls: []providers.CallPiece{{ID: "a"}}}}
		}
		if test.broken {
			s.steps = append(s.steps, step{err: &providers.Error{Kind: providers.Truncated}})
		}
		r, _, _ := run(t, &Call{Targets: []Target{target("a", scripted(s))}, Messages: []providers.Message{{Content: "1234"}}, Stream: true})
		a := r.Attempts[0]
		if tokensOf(a) != test.want || a.Estimated != test.estimated || a.CachedTokens != test.counted.CachedTokens || a.Tier != test.counted.Tier || a.Usage.TotalTokens != max(a.PromptTokens+a.CompletionTokens, test.counted.TotalTokens) {
			t.Errorf("%s: %+v", name, a)
		}
	}
}
