package rules

import (
	"strconv"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// AppendSplits appends the splits of a trail as a JSON array, in the form of the
// traces' member splits, each with the shares of its arms unless it was consulted and has
// one. b is the binding that the trail is of. hash is that of
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
	switch {
	case c.Unconsulted:
		dst = append(dst, `,"consulted":false`...)
	case c.Arm != "":
		dst = append(dst, `,"arm":`...)
		dst = jsontext.AppendString(dst, c.Arm)
		fallthrough
	default:
		dst = append(dst, `,"share":`...)
		dst = strconv.AppendFloat(dst, c.Part(), 'f', -1, 64)
	}
	if c.Unconsulted || len(s.arms) > 1 { // of one arm, the share says it
		dst = append(dst, `,"arms":`...)
		if s.armsJSON != nil {
			dst = append(dst, s.armsJSON...)
		} else {
			dst = c.Table.appendArms(dst, s, s.covers(b))
		}
	}
	if c.Rollout > 0 {
		dst = append(dst, `,"rollout":`...)
		dst = strconv.AppendInt(dst, c.Rollout, 10)
	}
	if c.Uncompared {
		dst = append(dst, `,"compared":false`...)
	}
	if b.model.fields[s.by].records(b.model) {
		dst = append(dst, `,"unit":"`...)
		dst = append(b.appendHash(dst, s.by, hash), '"')
	}
	return append(dst, '}')
}

// appendArms appends, as a JSON object, the share of each arm of a split that covers so
// much. A variant that has several parts of the split is one arm.
func (t *Table) appendArms(dst []byte, s *split, coverage uint32) []byte {
	dst = append(dst, '{')
	empty := len(dst)
	for i := range s.arms {
		arm := t.arm(s, s.first+i)
		if t.isArmOf(s, arm, i) {
			continue
		}
		if len(dst) > empty {
			dst = append(dst, ',')
		}
		dst = append(jsontext.AppendString(dst, arm), ':')
		covered := uint32(0)
		for j := range s.shares {
			if t.arm(s, s.shares[j].outcome) == arm {
				covered += s.covered(j, coverage)
			}
		}
		dst = strconv.AppendFloat(dst, float64(covered)/Buckets, 'f', -1, 64)
	}
	return append(dst, '}')
}

// isArmOf reports whether one of the first n parts of a split is that of an arm.
func (t *Table) isArmOf(s *split, arm string, n int) bool {
	for i := range n {
		if t.arm(s, s.first+i) == arm {
			return true
		}
	}
	return false
}
