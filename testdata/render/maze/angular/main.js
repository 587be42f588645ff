import '@angular/compiler';
import {Component, inject, provideZonelessChangeDetection} from '@angular/core';
import {bootstrapApplication} from '@angular/platform-browser';
import {provideRouter, Router, RouterLink, RouterOutlet} from '@angular/router';

const view = name => Component({selector: 'view-' + name, template: '<h1>' + name + '</h1>'})(class {});
const App = Component({selector: 'app-root', imports: [RouterLink, RouterOutlet],
  template: '<a routerLink="/found/router-outlet">link</a><button (click)="go()">event handler</button><router-outlet/>'})(class {
  router = inject(Router);
  go() { this.router.navigate(['found', 'event-handler']); }
});
bootstrapApplication(App, {providers: [provideZonelessChangeDetection(), provideRouter([
  {path: 'found/router-outlet', component: view('one')}, {path: 'found/event-handler', component: view('two')}])]});
