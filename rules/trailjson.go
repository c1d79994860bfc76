package rules

import (
	"strconv"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// AppendSplits appends the splits of a trail as a JSON array, in the form of the
// traces' member splits. b is the binding that the trail is of. hash is that of
// [Table.AppendInputs]; it makes the unit of a split, which is left out where its
// field says trace: none. It appends nothing where the trail has no splits.
func (tr *Trail) AppendSplits(dst []byte, b *Binding, hash HashFunc) []byte {
	if len(tr.Splits) == 0 {
		return dst
	}
	dst = append(dst, '[')
	for i := range tr.Splits {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = tr.Splits[i].appendJSON(dst, b, hash)
	}
	return append(dst, ']')
}

func (c *Consulted) appendJSON(dst []byte, b *Binding, hash HashFunc) []byte {
	s := c.Table.answers[c.Row].split
	dst = append(dst, `{"experiment":{"definition":`...)
	dst = jsontext.AppendString(dst, c.Table.name)
	dst = append(dst, `,"rule":`...)
	dst = jsontext.AppendString(dst, c.Table.rows[c.Row].ID)
	dst = append(dst, `,"salt":`...)
	dst = jsontext.AppendString(dst, s.salt)
	dst = append(dst, `},"bucket":`...)
	dst = strconv.AppendUint(dst, uint64(c.Bucket), 10)
	if c.Arm != "" {
		dst = append(dst, `,"arm":`...)
		dst = jsontext.AppendString(dst, c.Arm)
	}
	dst = append(dst, `,"share":`...)
	dst = strconv.AppendFloat(dst, c.Part(), 'f', -1, 64)
	if b.model.fields[s.by].records(b.model) {
		dst = append(dst, `,"unit":"`...)
		dst = append(b.appendHash(dst, s.by, hash), '"')
	}
	return append(dst, '}')
}
