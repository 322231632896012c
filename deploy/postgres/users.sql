-- Users of a lake, one for each job or person, as examples: change the names, and give real passwords.
--
-- "SET role": whoever logs in acts as the role. The tables that it makes belong to the role then, and not to one job
-- alone, so that another job, or maintenance, can empty and drop them.

CREATE ROLE orders_job LOGIN PASSWORD :'orders_password' CONNECTION LIMIT 20 IN ROLE lake_sink;
ALTER ROLE orders_job SET role = 'lake_sink';

CREATE ROLE nightly_maintenance LOGIN PASSWORD :'maintenance_password' IN ROLE lake_maintainer;
ALTER ROLE nightly_maintenance SET role = 'lake_maintainer';

CREATE ROLE analyst LOGIN PASSWORD :'analyst_password' IN ROLE lake_reader;

CREATE ROLE feed_reader LOGIN PASSWORD :'feed_password' IN ROLE lake_consumer;
