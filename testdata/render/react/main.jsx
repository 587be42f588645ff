import React, {useEffect, useState} from 'react';
import {createRoot} from 'react-dom/client';
import {BrowserRouter, Link, Route, Routes, useParams} from 'react-router';

function List() {
  const [items, set] = useState([]);
  useEffect(() => { fetch('/data.json').then(r => r.json()).then(set); }, []);
  return <ul>{items.map(i => <li key={i}><Link to={'/item/' + i}>Item {i}</Link></li>)}<li><Link to="/about">About us</Link></li></ul>;
}
const Item = () => <><h1>Item {useParams().id} of the shop</h1><Link to="/">home</Link></>;
const About = () => <><h1>About the shop</h1><Link to="/">home</Link></>;

createRoot(document.getElementById('app')).render(<BrowserRouter><Routes>
  <Route path="/" element={<List/>}/><Route path="/item/:id" element={<Item/>}/><Route path="/about" element={<About/>}/>
</Routes></BrowserRouter>);
