package smallbucket

import (
	"encoding/hex"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
)

// upload is the folder of an object that comes in parts.
func (b *Bucket) upload(id string) (string, error) {
	if raw, err := hex.DecodeString(id); err != nil || len(raw) != 16 {
		return "", fail(http.StatusNotFound, "NoSuchUpload", "there is no such upload")
	}
	dir := filepath.Join(b.parts(), id)
	if _, err := os.Stat(dir); err != nil {
		return "", fail(http.StatusNotFound, "NoSuchUpload", "there is no such upload")
	}
	return dir, nil
}

func (b *Bucket) beginParts(w http.ResponseWriter) error {
	id := random()
	if err := os.Mkdir(filepath.Join(b.parts(), id), 0o700); err != nil {
		return err
	}
	return answer(w, struct {
		XMLName  xml.Name `xml:"InitiateMultipartUploadResult"`
		Bucket   string
		UploadID string `xml:"UploadId"`
	}{Bucket: b.name, UploadID: id})
}

func (b *Bucket) putPart(w http.ResponseWriter, r *http.Request, id, number string) error {
	dir, err := b.upload(id)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > maxParts {
		return fail(http.StatusBadRequest, "InvalidArgument", "no part has that number")
	}
	from, sum, err := b.receive(r, dir)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", `"`+sum+`"`)
	return os.Rename(from, filepath.Join(dir, strconv.Itoa(n)))
}

// endParts makes an object of the parts that the request names.
func (b *Bucket) endParts(w http.ResponseWriter, r *http.Request, id, at string) (err error) {
	dir, err := b.upload(id)
	if err != nil {
		return err
	}
	var ask struct {
		Part []struct{ PartNumber int }
	}
	if err := xml.NewDecoder(io.LimitReader(r.Body, 4<<20)).Decode(&ask); err != nil {
		return fail(http.StatusBadRequest, "MalformedXML", "the list of parts cannot be read")
	}
	out, err := os.CreateTemp(dir, "whole-")
	if err != nil {
		return err
	}
	for _, p := range ask.Part {
		if err = appendFile(out, filepath.Join(dir, strconv.Itoa(p.PartNumber))); err != nil {
			break
		}
	}
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return err
	}
	if err := b.place(out.Name(), at, r.Header.Get("If-None-Match") == "*"); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return answer(w, struct {
		XMLName xml.Name `xml:"CompleteMultipartUploadResult"`
		Bucket  string
		ETag    string
	}{Bucket: b.name, ETag: `"` + id + `"`})
}

func appendFile(to io.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return fail(http.StatusBadRequest, "InvalidPart", "a part is missing")
	}
	_, err = io.Copy(to, f)
	return errors.Join(err, f.Close())
}
