package sqlite

import "github.com/cadenza-gateway/cadenza/trace"

// withoutEnd returns the interrupted calls that are not stored. If one is stored, the crash
// came after its end was stored, and before its start record was cleared.
func (s *statements) withoutEnd(interrupted []*trace.Record) (without []*trace.Record, err error) {
	for _, r := range interrupted {
		err := s.stored.bindAll(blobValue(r.ID[:]))
		stored := false
		if err == nil {
			stored, err = s.stored.step()
		}
		s.stored.reset()
		if err != nil {
			return nil, err
		}
		if !stored {
			without = append(without, r)
		}
	}
	return without, nil
}
