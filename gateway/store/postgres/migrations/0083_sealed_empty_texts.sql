-- A pairing code is forgotten in the transaction that ends its letter
-- (`gateway.store.repositories.delivery.ended_parts`): no trigger can seal the empty text.
DROP TRIGGER outbox_pairing ON outbox;
DROP FUNCTION forget_pairing_code();
