package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// issue does what has cert-manager get a certificate, and waits until it is served at each
// edge, told, and nothing of the challenge is left.
func (w *world) issue(ctx context.Context, s *secured, what string, do func(context.Context) error) error {
	routes, err := follow(ctx, w.Hub, s.solver, own)
	if err != nil {
		return err
	}
	defer func() { _, _, _ = routes.end() }()
	count, err := w.countChallenges(ctx)
	if err != nil {
		return err
	}
	defer count.end()
	began := time.Now()
	for _, t := range s.targets {
		t.right.be(began, append(slices.Clone(t.usual), servedByBlue)...)
	}
	if err := do(ctx); err != nil {
		return err
	}
	serial, err := w.nextSerial(ctx, s)
	if err != nil {
		return err
	}
	written := time.Since(began)
	for _, t := range s.targets {
		if err := t.presents(ctx, serial, servedByBlue); err != nil {
			return err
		}
		t.usual = []string{servedByBlue}
		t.right.be(time.Now(), t.usual...)
	}
	served := time.Since(began)
	if err := s.reaches(ctx, serial); err != nil {
		return err
	}
	if err := patience.Await(ctx, "statuses to say so", s.told); err != nil {
		return err
	}
	if err := patience.Await(ctx, "what was for the challenge to be gone", w.noSolvers); err != nil {
		return err
	}
	gone := time.Since(began)
	_, then, err := routes.end()
	if err != nil {
		return err
	}
	w.said.line("%s %s, %s: Secret after %s, presented at every edge after %s, nothing of the challenge left after %s", s.kind, s.name, what, ms(written), ms(served), ms(gone))
	return errors.Join(cameAndWent(then), count.judge(w.said, w.Fleet.Spec.Edges))
}

// reaches returns when clients of the load were shown a certificate.
func (s *secured) reaches(ctx context.Context, serial int64) error {
	return patience.Await(ctx, "clients of the load to be shown the certificate", func(context.Context) error {
		if all := s.shown.all(); !slices.Contains(all, serial) {
			return fmt.Errorf("they were shown %x", all)
		}
		return nil
	})
}

// renew is what `cmctl renew` does.
func (w *world) renew(ctx context.Context, certificate string) error {
	of := w.Hub.Of("Certificate", own)
	return patience.Await(ctx, "Certificate "+certificate+" to be marked", func(ctx context.Context) error {
		o, err := of.Get(ctx, certificate, metav1.GetOptions{})
		if err != nil {
			return err
		}
		all, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
		if err != nil {
			return err
		}
		all = append(all, object{
			"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "a user asked for it",
			"lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339), "observedGeneration": o.GetGeneration(),
		})
		if err := unstructured.SetNestedSlice(o.Object, all, "status", "conditions"); err != nil {
			return err
		}
		_, err = of.UpdateStatus(ctx, o, metav1.UpdateOptions{FieldManager: manager})
		return err
	})
}

// nextSerial returns that of a certificate that the host did not have, as soon as the
// Secret has it.
func (w *world) nextSerial(ctx context.Context, s *secured) (serial int64, err error) {
	return serial, patience.Await(ctx, "a certificate in Secret "+s.host, func(ctx context.Context) error {
		o, err := w.Hub.Get(ctx, "Secret", own, s.host)
		if err != nil {
			return err
		}
		text, _, err := unstructured.NestedString(o.Object, "data", "tls.crt")
		if err != nil {
			return err
		}
		der, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return err
		}
		cert, err := certificateOf(der)
		if err != nil {
			return err
		}
		serial = cert.SerialNumber.Int64()
		if slices.Contains(s.issued, serial) {
			return errors.New("it has the one of before")
		}
		s.issued = append(s.issued, serial)
		return nil
	})
}

// presents returns when so many fresh connections in a row had a certificate that every
// thread of the proxy must have been asked.
func (t *target) presents(ctx context.Context, serial int64, want string) error {
	r := t.request
	r.Fresh = true
	return patience.Await(ctx, fmt.Sprintf("%s to present certificate %x", t, uint64(serial)), func(ctx context.Context) error {
		for range inARow {
			reply := r.Send(ctx)
			if got := answer(reply); got != want || reply.Serial != serial {
				return fmt.Errorf("it was answered %q with certificate %x", got, uint64(reply.Serial))
			}
		}
		return nil
	})
}
