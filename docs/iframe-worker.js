"use strict";
// The site's search runs in a worker, which browsers refuse to start from a file. When the site is
// opened from files, this class stands in for Worker: it runs the script in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.onmessage = null;
      this.onerror = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      this.inside = this.frame.contentWindow;
      this.inside.document.open();
      this.inside.document.write("<!doctype html><title>worker</title>");
      this.inside.document.close();
      // What the script sends arrives here; `importScripts` adds further scripts, in order.
      this.inside.postMessage = (data) => setTimeout(() => this.deliver(data));
      this.inside.importScripts = (...addresses) => addresses.reduce(
        (before, each) => before.then(() => this.load(each)), Promise.resolve(),
      );
      this.ready = this.load(address);
      this.ready.catch((error) => this.onerror?.(error));
    }

    load(address) {
      return new Promise((resolve, reject) => {
        const script = this.inside.document.createElement("script");
        script.src = new URL(address, location.href);
        script.onload = resolve;
        script.onerror = () => reject(new Error(`${script.src} must load`));
        this.inside.document.head.append(script);
      });
    }

    deliver(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      this.onmessage?.(event);
    }

    postMessage(data) {
      this.ready.then(() => {
        this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
      });
    }

    terminate() {
      this.frame.remove();
    }
  };
}
