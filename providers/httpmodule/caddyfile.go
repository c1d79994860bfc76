package httpmodule

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
	"github.com/cadenza-gateway/cadenza/secret"
)

// Unmarshal reads a provider's block into the fields of module, a pointer to a
// struct. Options have the names of the fields in JSON, those of
// embedded structs included, and the type of a field is the syntax of its
// option:
//
//	string           <text>, which is not empty
//	secret.Reference {env.NAME} | {file.PATH}
//	int64            <count>, a whole number of at least 1
//	[]string         <word...>
//	bool             without an argument: it is set
//
// An option is given once. Unmarshal panics if a field has another type.
func Unmarshal(d *caddyfile.Dispenser, module any) error {
	d.Next()
	provider := d.Val()
	if d.NextArg() {
		return d.Errf("%s takes no arguments: its options are in a block", provider)
	}
	names, fields := optionsOf(reflect.ValueOf(module).Elem())
	for d.NextBlock(0) {
		option := d.Val()
		field, known := fields[option]
		if !known {
			return d.Err(document.Unrecognized(provider+" provider option", option, names))
		}
		if !field.IsZero() && field.Kind() != reflect.Bool {
			return d.Errf("%s is configured twice", option)
		}
		if err := unmarshal(d, option, field.Addr().Interface()); err != nil {
			return err
		}
	}
	return nil
}

// optionsOf returns the fields that have a name in JSON, by that name, and the
// names in the order of the fields.
func optionsOf(module reflect.Value) (names []string, fields map[string]reflect.Value) {
	fields = map[string]reflect.Value{}
	for _, f := range reflect.VisibleFields(module.Type()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
			fields[name] = module.FieldByIndex(f.Index)
		}
	}
	return names, fields
}

// unmarshal reads the arguments of one option.
func unmarshal(d *caddyfile.Dispenser, option string, field any) error {
	// No message repeats an argument where another one is expected: it may be a
	// secret.
	args := d.RemainingArgs()
	switch v := field.(type) {
	case *bool:
		if len(args) != 0 {
			return d.Errf("%s takes no argument: it is set by its name alone", option)
		}
		*v = true
		return nil
	case *[]string:
		if len(args) == 0 {
			return d.Errf("%s takes one argument or more", option)
		}
		*v = args
		return nil
	}
	if len(args) != 1 {
		return d.Errf("%s takes one argument, this has %d", option, len(args))
	}
	text := args[0]
	if text == "" {
		return d.Errf("%s is empty", option)
	}
	switch v := field.(type) {
	case *string:
		if option == "base_url" {
			if _, err := upstream.ParseBaseURL(text); err != nil {
				return d.WrapErr(err)
			}
		}
		*v = text
	case *secret.Reference:
		*v = secret.Reference(text)
		if err := v.Validate(); err != nil {
			return d.Errf("%s: %v", option, err)
		}
	case *int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return d.Errf("%s must be a whole number of at least 1, not %q", option, text)
		}
		*v = n
	default:
		panic(fmt.Sprintf("httpmodule: the option %s is a %T, which has no syntax", option, field))
	}
	return nil
}
