import React from 'react';
import {createRoot} from 'react-dom/client';
import {BrowserRouter, Link, Route, Routes, useNavigate, useParams} from 'react-router';

function Search() {
  const go = useNavigate();
  return <form onSubmit={e => { e.preventDefault(); go('/found/search/' + e.target.elements.query.value); }}>
    <input name="query" required/><button type="submit">Search</button></form>;
}
const Result = () => <h1>You have searched {useParams()['*']}</h1>;

createRoot(document.getElementById('root')).render(<BrowserRouter><Link to="/found/route-path">route</Link><Search/><Routes>
  <Route path="/" element={<h1>home</h1>}/><Route path="/found/route-path" element={<h1>route</h1>}/><Route path="/found/search/*" element={<Result/>}/>
</Routes></BrowserRouter>);
