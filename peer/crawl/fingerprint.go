package crawl

// Fingerprint returns what a crawl tells as a page's Shingle: that of the text of an HTML body, and zero for other bodies. An archive computes it itself where
// something depends on it, since a member could tell the fingerprint of another body than it sends.
func Fingerprint(url, contentType string, body []byte) uint64 {
	if !isHTML(contentType, body) {
		return 0
	}
	var p page
	p.read(url, body, contentType, "", false)
	return p.shingle
}
