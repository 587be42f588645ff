'use client';
import Link from 'next/link';
import {useEffect, useState} from 'react';

export default function List() {
  const [items, set] = useState([]);
  useEffect(() => { fetch('/data.json').then(r => r.json()).then(set); }, []);
  return <ul>{items.map(i => <li key={i}><Link href={'/item/' + i}>Item {i}</Link></li>)}</ul>;
}
