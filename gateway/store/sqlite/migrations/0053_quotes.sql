-- Which conversation a message belongs to that somebody replies to.
CREATE INDEX outbox_sent ON outbox (provider_msg, lane);
