// Package rules is the rule engine: a data model of typed fields, a caller's
// context bound to it, and configuration matrices compiled so that the first
// row that meets the context is found without allocating.
//
// A Model binds the context of a request once (Model.Bind, into a Binding); any
// number of Tables then decide by the binding (Table.Evaluate) and say why
// (Table.Explain). Table.Analyse finds mistakes in a table without any context, and
// a Finder contexts for the rows of several. Models and tables are immutable. The
// gateway decodes them from the nodes of a workspace's files (DecodeModel and
// DecodeTable), other programs and tests from a text (ParseModel and ParseTable).
//
// # Data model
//
// A workspace's context.yaml declares which members of a request's context
// rules may read, and how:
//
//	timezone: Europe/Brussels          # for dates without a time; UTC unless given
//	on_unknown_field: ignore           # ignore | warn | reject
//	on_type_mismatch: missing          # missing | reject
//	coerce: true                       # for all fields; a field may differ
//	targeting_key: customer_id         # the field that OpenFeature's targetingKey fills
//	fields:
//	  environment: { type: string, values: [production, staging], required: true }
//	  locale:      { type: string, match: language-range }
//	  plan:        { type: string, ignore_case: true }
//	  seats:       { type: number, min: 0 }
//	  app_version: { type: string, format: semver }
//	  address:     { type: string, format: ip }
//	  signed_up:   { type: date }
//	  beta:        { type: boolean }
//	  tags:        { type: list }
//	  country:     { type: string, path: user.address.country }
//	  customer_id: { type: string, trace: hash }   # value | hash | none
//	computed:
//	  big_team: seats >= 100 && environment == "production"
//	segments:
//	  staff: [ { tags: employee }, { address: 10.0.0.0/8 } ]
//	trace: { always: [plan] }          # recorded also where no table reads it
//
// A value of the wrong type, or outside values, min and max, counts as missing
// and is noted. Under on_type_mismatch: reject such a request is refused, and so
// is one without a required field. Number fields hold IEEE 754 doubles, so
// identifiers belong in string fields. Dates have a resolution of a
// microsecond. A field with a path is a member of an object in the context;
// others are members of the context itself.
//
// A trace records the fields that a decision read: with trace: value the value,
// with hash a keyed hash of it, with none nothing. The default is value for
// booleans and for strings with values, and hash for all others. A computed field
// has no trace: it is worked out again from the fields that it reads.
//
// Tables and segments may also name fields of the gateway, which no data model
// declares and no caller sends:
//
//	budget.daily: 80..           the percent of the limit daily that is used
//	health.openai: down          up or down: a provider
//	health.openai/gpt-5.5: down  one model of it
//
// A Gateway (Binding.SetGateway) is asked for them when the first table of a request
// that reads one is evaluated. Such a table is tried without a context, too, with the
// caller's fields missing, and its decisions are never cached. Traces have the values
// as they are. A field that the data model declares under such a name comes first.
// Expressions and splits can't read these fields. The field rollout.FOLDER/KEY/ID is that
// of a guarded split, and no cell can name it.
//
// A segment is a list of rows of which one must match; the cells of a row must
// all match. A computed field is an expression in CEL over the fields and the
// computed fields above it. It is missing where the evaluation fails, mostly
// because a field that it needs is missing. present(field) reports whether a
// field has a value. now is the instant of the request, unless a field has this
// name.
//
// # Cells
//
// A cell is a condition on one field. It is read by the field's type from the
// text in the file, never from YAML's idea of it.
//
//	any                   matches always; so does "*", null or an empty cell
//	missing, present      whether the field has a value
//	not X                 the field has a value and X does not match it
//	pro                   the value (all types)
//	[pro, team]           one of several cells
//	pre*  "*suf"  "*mid*" text that begins with, ends with, contains
//	/re/                  text in which the RE2 expression is found
//	10..20  10..<20       a range with, without its upper end (number, date,
//	10..    ..20          semver, ip)
//	^2.1   ~2.1.3         2.1.0 up to before 3.0.0, 2.1.3 up to before 2.2.0
//	10.0.0.0/8            a network (ip)
//	nl                    language-range fields: nl and nl-BE (RFC 4647, basic
//	                      filtering)
//
// A map joins tests of which all must match:
//
//	{any: [a, b]}         one of the cells; on a list: some element is a or b
//	{all: [a, b]}         all cells; on a list: some element is a, some is b
//	{none: [a, b]}        none of the cells; on a list: no element is a or b
//	{not: X}              X does not match
//	{size: 1..}           the number of a list's elements
//	{is: "any"}           the value, literally
//	{matches: 'x{2}'}     the RE2 expression, without slashes
//
// A plain value on a list field means any. Beside fields, segment: names
// segments, and config: {other_key: value} asks that another configuration has
// a value for the same context.
//
// A condition on the value, negated or not, never matches a missing field:
// only any, missing and not present, which is the same, do.
//
// A quoted scalar of a YAML file on a field of text (string or list) is always
// the value itself, so that a value named any or a..b can be written. The one
// exception is a quoted scalar that begins with an asterisk, because YAML can't
// express it without quotes: "*", "*suf" and "*mid*" are patterns,
// and {is: "*"} is the asterisk itself. Elsewhere, and in JSON files, quotes
// make no difference.
//
// A version with fewer than three parts means all versions from its first
// release up to before the pre-releases of the next: 2.1 matches 2.1.0,
// 2.1.7-rc.1 and 2.1.7, and ..2.1 includes them. As a lower end and as an excluded
// upper end it means 2.1.0. Order is that of SemVer 2.0.0, pre-releases included:
// 2.1.0-rc.1 is below 2.1.0 and within 2.0..<2.1. A date without a time means
// that whole day in the model's time zone.
//
// # Rows
//
// Rows are tried top to bottom and the first that matches answers. They are
// written as columns and matrix (one line a row) or as rules (one mapping a
// row); id, from, until and ramp can be given in either, split only in rules.
// A row is active from the instant from up to, not including, until; an until
// without a time includes that day. A ramp lets a row match a share of the
// units of its by field that grows linearly from start to end. A split with a guard in
// place of shares divides between two answers by the share of a rollout, of which the
// Gateway knows how far it has come: Table.Guards.
//
// Traces call a part of a split by its arm (Table.Arm): its name, else its number,
// as in split: { by: customer_id, of: [ { value: blue, share: 20%, name: b } ] }.
// Table.AppendTrail lists the splits and prerequisites behind a decision, Trail.Rest
// the other splits, and Table.AppendInputs the values of the fields that it read.
package rules
