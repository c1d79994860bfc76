package secret_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/cadenza-gateway/cadenza/secret"
)

// A configuration refers to secrets. It never has them in it.
func ExampleReference_Validate() {
	for _, r := range []secret.Reference{"{env.OPENAI_API_KEY}", "{file./run/secrets/key}", "sk-0123456789"} {
		fmt.Println(r.Validate() == nil)
	}
	// Output:
	// true
	// true
	// false
}

// A key that is replaced in its file is used within ten seconds, and a file that
// is being written does no harm.
func ExampleReference_Rotating() {
	refresh := secret.Refresh
	secret.Refresh = 0 // the example does not wait
	defer func() { secret.Refresh = refresh }()

	dir, err := os.MkdirTemp("", "secret")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "key")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			panic(err)
		}
	}

	write("first\n")
	key := secret.Reference("{file." + file + "}").Rotating(nil)
	fmt.Println(key.Value())
	write("")
	fmt.Println(key.Value())
	write("second\n")
	fmt.Println(key.Value())
	// Output:
	// first <nil>
	// first <nil>
	// second <nil>
}
