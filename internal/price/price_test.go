package price

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
)

func dollars(f float64) *float64 { return &f }

// TestCostIsThatOfAnOracle compares costs with the ones that another project's
// tests expect: testdata/spend.json names it.
func TestCostIsThatOfAnOracle(t *testing.T) {
	data, err := os.ReadFile("testdata/spend.json")
	if err != nil {
		t.Fatal(err)
	}
	var oracle struct {
		Prices map[string]*Price
		Cases  []struct {
			Name  string
			Usage providers.Usage
			Spend map[string]float64
		}
	}
	if err := json.Unmarshal(data, &oracle); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, c := range oracle.Cases {
		for model, want := range c.Spend {
			p := oracle.Prices[model]
			if p == nil {
				t.Fatalf("%s: %s has no price", c.Name, model)
			}
			if err := p.Validate(); err != nil {
				t.Fatalf("%s: %v", model, err)
			}
			if got := p.Cost(&c.Usage); math.Abs(got-want) > 1e-9 {
				t.Errorf("%s: %s: cost %.9f, want %.9f", c.Name, model, got, want)
			}
			compared++
		}
	}
	if compared < 130 {
		t.Errorf("%d cases were compared", compared)
	}
}

func TestCost(t *testing.T) {
	plain := &Price{Prompt: 3, Completion: 15}
	cached := &Price{Prompt: 3, Completion: 15, Parts: Parts{CacheRead: dollars(0.3)}}
	media := &Price{Prompt: 1, Completion: 2, Parts: Parts{CacheRead: dollars(0.1), AudioIn: dollars(10), ImageIn: dollars(5), AudioOut: dollars(20), ImageOut: dollars(30)}}
	heard := &Price{Prompt: 1, Parts: Parts{AudioIn: dollars(10)}}
	heardAgain := &Price{Prompt: 1, Parts: Parts{AudioIn: dollars(10), CacheRead: dollars(0.1), AudioCacheRead: dollars(4)}}
	tiered := &Price{
		Prompt: 1.25, Completion: 10, Parts: Parts{CacheRead: dollars(0.125)},
		Above: map[int64]Change{400_000: {Prompt: dollars(5)}, 200_000: {Prompt: dollars(2.5), Completion: dollars(15)}},
		Batch: &Class{Change: Change{Factor: dollars(0.5)}},
		Flex:  &Class{Change: Change{Factor: dollars(0.5), Completion: dollars(4)}, Above: map[int64]Change{200_000: {Completion: dollars(6)}}},
	}
	for _, test := range []struct {
		name  string
		price *Price
		usage providers.Usage
		want  float64
	}{
		{"the example of Price", cached, providers.Usage{PromptTokens: 1000, CachedTokens: 800, CacheWriteTokens: 100, CompletionTokens: 50, ReasoningTokens: 20}, 0.00159},
		{"nothing", cached, providers.Usage{}, 0},
		{"a price of 0", &Price{Prompt: 3, Parts: Parts{CacheRead: dollars(0)}}, providers.Usage{PromptTokens: 1000, CachedTokens: 1000}, 0},
		{"parts without prices", plain, providers.Usage{PromptTokens: 100, CachedTokens: 10, CacheWriteTokens: 10, CacheWriteHourTokens: 10, PromptAudioTokens: 10, PromptImageTokens: 10, CompletionTokens: 10, ReasoningTokens: 2, CompletionAudioTokens: 2, CompletionImageTokens: 2}, 450e-6},
		{"writes for an hour without a price", &Price{Prompt: 3, Parts: Parts{CacheWrite: dollars(4)}}, providers.Usage{PromptTokens: 100, CacheWriteHourTokens: 100}, 400e-6},
		{"media", media, providers.Usage{PromptTokens: 100, PromptAudioTokens: 20, PromptImageTokens: 30, CompletionTokens: 100, CompletionAudioTokens: 10, CompletionImageTokens: 20}, (50 + 200 + 150 + 140 + 200 + 600) * 1e-6},
		{"media and cached text", media, providers.Usage{PromptTokens: 100, PromptAudioTokens: 20, CachedTokens: 70}, (10 + 200 + 7) * 1e-6},
		{"cached media", media, providers.Usage{PromptTokens: 100, PromptAudioTokens: 20, CachedTokens: 90}, (100 + 9) * 1e-6},
		{"cached sounds without a price of cached tokens", heard, providers.Usage{PromptTokens: 100, PromptAudioTokens: 20, CachedTokens: 90}, (200 + 80) * 1e-6},
		{"cached sounds with a price", heardAgain, providers.Usage{PromptTokens: 100, PromptAudioTokens: 20, CachedTokens: 90}, (100 + 8 + 40) * 1e-6},
		{"more cached tokens than the prompt has", cached, providers.Usage{PromptTokens: 100, CachedTokens: 500}, 30e-6},
		{"more of all parts than there are", cached, providers.Usage{PromptTokens: 100, CachedTokens: 500, CacheWriteHourTokens: 90, PromptAudioTokens: 300, CompletionTokens: 10, ReasoningTokens: 99, CompletionAudioTokens: 99}, (270 + 10*0.3 + 150) * 1e-6},
		{"negative numbers", cached, providers.Usage{PromptTokens: -100, CachedTokens: -500, CompletionTokens: -10, ReasoningTokens: -99, WebSearches: -1}, 0},
		{"negative uses of tools", &Price{WebSearch: 10, FileSearch: 10, CodeExecution: 10}, providers.Usage{WebSearches: 2, FileSearches: -1, CodeExecutions: -1}, 0.02},
		{"negative parts", cached, providers.Usage{PromptTokens: 100, CachedTokens: -500, CompletionTokens: 10, ReasoningTokens: -99}, 450e-6},
		{"the end of the first tier", tiered, providers.Usage{PromptTokens: 200_000}, 0.25},
		{"the begin of the second", tiered, providers.Usage{PromptTokens: 200_001, CompletionTokens: 1000}, 0.5000025 + 0.015},
		{"a tier keeps what it does not give", tiered, providers.Usage{PromptTokens: 400_000, CachedTokens: 400_000}, 0.05},
		{"the largest tier alone", tiered, providers.Usage{PromptTokens: 500_000, CompletionTokens: 1000}, 2.5 + 0.01},
		{"a class with a factor", tiered, providers.Usage{PromptTokens: 300_000, CachedTokens: 100_000, CompletionTokens: 1000, Tier: "batch"}, (0.5 + 0.0125 + 0.015) / 2},
		{"a class with a factor and a price", tiered, providers.Usage{PromptTokens: 100_000, CompletionTokens: 1000, Tier: "flex"}, 0.0625 + 0.004},
		{"a tier of a class", tiered, providers.Usage{PromptTokens: 300_000, CompletionTokens: 1000, Tier: "flex"}, 0.375 + 0.006},
		{"a class without a price", tiered, providers.Usage{PromptTokens: 100_000, Tier: "priority"}, 0.125},
		{"an unknown class", tiered, providers.Usage{PromptTokens: 100_000, Tier: "scale"}, 0.125},
		{"tools", &Price{WebSearch: 10, FileSearch: 2.5, CodeExecution: 30, Batch: &Class{Change: Change{Factor: dollars(0.5)}}}, providers.Usage{WebSearches: 3, FileSearches: 2, CodeExecutions: 1, Tier: "batch"}, 0.03 + 0.005 + 0.03},
		{"what the provider says is another matter", plain, providers.Usage{PromptTokens: 1000, Cost: 7, HasCost: true}, 0.003},
	} {
		if got := test.price.Cost(&test.usage); math.Abs(got-test.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// TestMostIsNeverExceeded holds the bound that budgets reserve.
func TestMostIsNeverExceeded(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	tokens := func() int64 { return random.Int64N(1000) - 100 }
	rate := func() float64 { return float64(random.IntN(50)) / 10 }
	maybe := func() *float64 {
		if random.IntN(2) == 0 {
			return nil
		}
		return dollars(rate())
	}
	change := func() Change {
		return Change{Factor: maybe(), Prompt: maybe(), Completion: maybe(), Parts: Parts{
			CacheRead: maybe(), CacheWrite: maybe(), CacheWriteHour: maybe(), AudioIn: maybe(), AudioCacheRead: maybe(), ImageIn: maybe(),
			Reasoning: maybe(), AudioOut: maybe(), ImageOut: maybe(),
		}}
	}
	tiers := func() map[int64]Change {
		all := make(map[int64]Change)
		for range random.IntN(3) {
			all[random.Int64N(800)+1] = change()
		}
		return all
	}
	for range 20_000 {
		p := &Price{Prompt: rate(), Completion: rate(), Parts: change().Parts, Above: tiers(), Priority: &Class{Change: change(), Above: tiers()}}
		u := providers.Usage{
			PromptTokens: tokens(), CachedTokens: tokens(), CacheWriteTokens: tokens(), CacheWriteHourTokens: tokens(), PromptAudioTokens: tokens(), PromptImageTokens: tokens(),
			CompletionTokens: tokens(), ReasoningTokens: tokens(), CompletionAudioTokens: tokens(), CompletionImageTokens: tokens(),
		}
		in, out := u.PromptTokens+random.Int64N(200), u.CompletionTokens+random.Int64N(200)
		if cost, most := p.Cost(&u), p.MaxCostIn("", in, out); cost < 0 || cost > most*(1+1e-12) {
			t.Fatalf("%+v of %+v costs %v, at most %v was foreseen", u, p, cost, most)
		}
		asked := p.MaxCostIn("priority", in, out)
		u.Tier = "priority"
		if cost := p.Cost(&u); cost < 0 || cost > asked*(1+1e-12) || asked < p.MaxCostIn("", in, out) {
			t.Fatalf("%+v of %+v costs %v, at most %v was foreseen", u, p, cost, asked)
		}
	}
	if most := (&Price{Prompt: 2, Completion: 10}).MaxCostIn("", 1000, 100); math.Abs(most-0.003) > 1e-12 {
		t.Errorf("1000 and 100 tokens cost at most %v, want 0.003: the bound must be tight", most)
	}
	// A tier is for prompts that are longer, whether they cost more or less.
	long := map[int64]Change{200_000: {Prompt: dollars(1), Completion: dollars(20)}}
	tiered := &Price{Prompt: 2, Completion: 10, Above: long, Priority: &Class{Above: long}}
	if most := tiered.MaxCostIn("priority", 1000, 100); math.Abs(most-0.003) > 1e-12 {
		t.Errorf("with a tier 1000 and 100 tokens cost at most %v, want 0.003", most)
	}
}

func TestValidate(t *testing.T) {
	bad := func(f float64) *Class { return &Class{Change: Change{Parts: Parts{Reasoning: dollars(f)}}} }
	for _, test := range []struct {
		price Price
		want  string
	}{
		{Price{}, ""},
		{Price{Prompt: -0.15}, "prompt -0.15 must be a number of US dollars per million tokens, from 0 to 1e9"},
		{Price{Completion: math.NaN()}, "completion NaN must be"},
		{Price{Parts: Parts{ImageOut: dollars(math.Inf(1))}}, "image_out +Inf must be"},
		{Price{CodeExecution: -1}, "code_execution -1 must be a number of US dollars per thousand uses, from 0 to 1e9"},
		{Price{Above: map[int64]Change{0: {}}}, "above 0 must be a number of tokens of the prompt, 1 or more"},
		{Price{Above: map[int64]Change{4: {}, 5: {Factor: dollars(-1)}}}, "above 5: factor -1 must be from 0 to 1e9, such as 0.5"},
		{Price{Batch: bad(-1)}, "batch: reasoning -1 must be"},
		{Price{Flex: bad(-1)}, "flex: reasoning -1 must be"},
		{Price{Priority: &Class{Above: map[int64]Change{-1: {}}}}, "priority: above -1 must be"},
		{Price{MaxOutput: -1}, "max_output -1 must be a number of tokens, 0 or more"},
	} {
		err := test.price.Validate()
		if err == nil && test.want != "" || err != nil && (test.want == "" || !strings.HasPrefix(err.Error(), test.want)) {
			t.Errorf("%+v: %v, want %s", test.price, err, test.want)
		}
	}
}

func BenchmarkCost(b *testing.B) {
	p := &Price{Prompt: 3, Completion: 15, Parts: Parts{CacheRead: dollars(0.3)}, Above: map[int64]Change{200_000: {Prompt: dollars(6)}}}
	u := &providers.Usage{PromptTokens: 1000, CachedTokens: 800, CompletionTokens: 50}
	b.ReportAllocs()
	for b.Loop() {
		p.Cost(u)
	}
}

func BenchmarkMost(b *testing.B) {
	p := &Price{Prompt: 3, Completion: 15, Parts: Parts{CacheRead: dollars(0.3)}, Above: map[int64]Change{200_000: {Prompt: dollars(6)}}}
	b.ReportAllocs()
	for b.Loop() {
		p.MaxCostIn("", 1000, 50)
	}
}
