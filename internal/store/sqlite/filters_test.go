package sqlite

import (
	"reflect"
	"slices"
	"testing"

	"github.com/cadenza-gateway/cadenza/trace"
)

// TestEveryMemberIsAFilterField: each member of a filter has a row, and each row has a
// condition on the database.
func TestEveryMemberIsAFilterField(t *testing.T) {
	filters := reflect.TypeFor[trace.Filter]()
	for i := range filters.NumField() {
		name := filters.Field(i).Name
		if slices.Contains([]string{"Since", "Until", "Metadata", "Inputs"}, name) {
			continue
		}
		var f trace.Filter
		switch v := reflect.ValueOf(&f).Elem().Field(i); v.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int, reflect.Int64:
			v.SetInt(1)
		case reflect.Uint8:
			v.SetUint(1)
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
		case reflect.Array:
			v.Index(0).SetUint(1)
		default:
			t.Fatalf("%s is a %s: set it here", name, v.Kind())
		}
		asked := slices.DeleteFunc(slices.Clone(FilterFields), func(field FilterField) bool { return !field.asked(&f) })
		if len(asked) == 0 {
			t.Errorf("no row of FilterFields asks for %s", name)
		}
		for _, field := range asked {
			var c clauses
			if field.where(&c, &f); len(c.text) == 0 {
				t.Errorf("%s: no condition", field.Name)
			}
		}
	}
}
