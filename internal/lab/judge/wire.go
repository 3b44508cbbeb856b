package judge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const maxAnswer = 256 << 20 // bytes of an answer

// errNone is returned for a page that the pond does not have.
var errNone = errors.New("judge: the pond has no such page")

// read asks for a URL. The code is 0 if there was no answer.
func (j *Judge) read(ctx context.Context, rawURL string, manager bool) (body []byte, code int, err error) {
	body, _, code, err = j.readAll(ctx, rawURL, manager)
	return body, code, err
}

// ask asks for a URL. The caller closes the body of the answer, whatever its status.
func (j *Judge) ask(ctx context.Context, rawURL string, manager bool) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, rawURL, nil)
	if err != nil {
		return nil, fmt.Errorf("judge: %w", err)
	}
	if manager {
		req.Header.Set("Authorization", "Bearer "+j.cfg.Token)
	}
	res, err := j.cfg.Client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("judge: %w", err)
	}
	return res, nil
}

func (j *Judge) readAll(ctx context.Context, rawURL string, manager bool) (body []byte, header http.Header, code int, err error) {
	res, err := j.ask(ctx, rawURL, manager)
	if err != nil {
		return nil, nil, 0, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, nil, res.StatusCode, fmt.Errorf("judge: read %s: %w", rawURL, err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, nil, res.StatusCode, fmt.Errorf("judge: %s: %s: %.200s", rawURL, res.Status, body)
	}
	return body, res.Header, res.StatusCode, nil
}

func (j *Judge) manager(ctx context.Context, path string, query url.Values, v any) error {
	b, _, err := j.read(ctx, j.cfg.Manager+"/api/v1"+path+"?"+query.Encode(), true)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("judge: %s: %w", path, err)
	}
	return nil
}

func (j *Judge) pond(ctx context.Context, path string, v any) error {
	b, _, err := j.read(ctx, j.cfg.Pond+path, false)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("judge: %s: %w", path, err)
	}
	return nil
}

// changes reads a part of the feed, of everything that it tells.
func (j *Judge) changes(ctx context.Context, cursor string) (part []change, next string, err error) {
	b, header, _, err := j.readAll(ctx, j.cfg.Manager+"/api/v1/archive/changes?"+url.Values{"all": {"1"}, "cursor": {cursor}}.Encode(), true)
	if err != nil {
		return nil, "", err
	}
	for d := json.NewDecoder(bytes.NewReader(b)); ; {
		var c change
		if err := d.Decode(&c); errors.Is(err, io.EOF) {
			return part, header.Get("Shoal-Cursor"), nil
		} else if err != nil {
			return nil, "", fmt.Errorf("judge: a line of the feed: %w", err)
		}
		part = append(part, c)
	}
}

// shows asks what a page showed at a moment.
func (j *Judge) shows(ctx context.Context, u string, at time.Time) (s shown, err error) {
	for name, of := range j.cfg.Alias {
		u = strings.Replace(u, "://"+name+"/", "://"+of+"/", 1)
	}
	b, code, err := j.read(ctx, j.cfg.Pond+"/_pond/page?"+url.Values{"url": {u}, "at": {at.Format(time.RFC3339Nano)}}.Encode(), false)
	if code == http.StatusNotFound {
		return s, errNone
	}
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("judge: /_pond/page: %w", err)
	}
	return s, nil
}
