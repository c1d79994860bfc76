// Package browser holds the tests of the console in a real Chromium: every page by three
// sizes in light and dark, signing in and out, texts that are markup, and a console that
// is open while the gateway is reloaded and restarted. It also reads flags in a page of
// another origin by OpenFeature's SDK. It is a module of its own so that the gateway does
// not depend on the driver of the browser.
//
// It needs Chromium (Debian's, the package chromium), and axe-core and OpenFeature's
// packages, which `npm ci --prefix testdata/clients` installs. CADENZA_SCREENSHOTS=1 has TestPages write
// the pictures of docs/console.
package browser
