-- Columns have the names of their meanings.
ALTER TABLE limit_notice RENAME COLUMN cap TO limit_key;
ALTER TABLE usage_reservation RENAME COLUMN nano TO cost_nusd;
ALTER TABLE api_answer RENAME COLUMN is_given TO is_complete;
