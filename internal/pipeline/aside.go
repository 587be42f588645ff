package pipeline

// aside is what archives are to have of an exchange that is no page's, as one for
// robots.txt; nil without archives, or if there was no answer. It goes by Processing, which
// passes it on as it is, so that Output has one source: the lease is Discovery's by then.
func aside(f *fetched) *fetched {
	if f.resp == nil || f.resp.Capture == nil {
		return nil
	}
	rec := newRecord(f.lease, f.sent)
	rec.Status, rec.Proto, rec.RemoteAddr = f.resp.Status, f.resp.Proto, f.resp.RemoteAddr
	rec.Timings.Total, rec.Exchange = f.total, f.resp.Capture
	return &fetched{aside: rec}
}
