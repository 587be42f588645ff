import {createApp, h, ref} from 'vue';
import {createRouter, createWebHistory, RouterLink, RouterView, useRoute} from 'vue-router';

const List = {setup() {
  const items = ref([]);
  fetch('/data.json').then(r => r.json()).then(l => { items.value = l; });
  return () => h('ul', [...items.value.map(i => h('li', h(RouterLink, {to: '/item/' + i}, () => 'Item ' + i))), h('li', h(RouterLink, {to: '/about'}, () => 'About us'))]);
}};
const Item = {setup() { const route = useRoute(); return () => [h('h1', 'Item ' + route.params.id + ' of the shop'), h(RouterLink, {to: '/'}, () => 'home')]; }};
const About = {render: () => [h('h1', 'About the shop'), h(RouterLink, {to: '/'}, () => 'home')]};
const router = createRouter({history: createWebHistory(), routes: [
  {path: '/', component: List}, {path: '/item/:id', component: Item}, {path: '/about', component: About}]});
createApp({render: () => h(RouterView)}).use(router).mount('#app');
