package trace

// Evaluations records the answers of one request, as Evaluation does each. What
// they share is counted once, with the first that is taken. Together they hold
// at most MaxRecordSize: those past it are dropped and counted.
func (r *Recorder) Evaluations(records []*Record) {
	room, counted := MaxRecordSize, false
	for _, record := range records {
		counts := record.Shared != nil && !counted
		if counts {
			record.Shared.countedWith = record
		}
		size := record.Size()
		if size > room {
			r.lose(record.Workspace, lostTooLarge, 1)
			ReleaseRecord(record)
			continue
		}
		if r.Evaluation(record) {
			room -= size
			counted = counted || counts
		}
	}
}
