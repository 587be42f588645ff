import {PolymerElement, html} from '@polymer/polymer/polymer-element.js';
import '@polymer/app-route/app-location.js';
import '@polymer/app-route/app-route.js';

customElements.define('my-app', class extends PolymerElement {
  static get template() {
    return html`<app-location route="{{route}}"></app-location><app-route route="{{route}}" pattern="/found/:page" data="{{data}}"></app-route>
      <a href="[[found]]polymer-router">router</a><button on-click="go">event handler</button><h1>[[data.page]]</h1>`;
  }
  static get properties() { return {found: {type: String, value: '/found/'}, route: Object, data: Object}; }
  go() { this.set('route.path', this.found + 'event-handler'); }
});
