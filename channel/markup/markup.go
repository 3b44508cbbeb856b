// Package markup reads the outside of documents as browsers do: which type a Content-Type names, or the root of a document, in which encoding a text is, where its tags and
// their attributes begin and end (HTML, section 13.2; Encoding Standard; Fetch, "extract a MIME type"). The crawl, sitemaps, the archive's main
// text and the comparison of two fetches read by it, so that what one of them can read all can.
//
// It is not for what a document means: links, elements and text are its callers' matter. It never changes the bytes that it is given.
package markup
