-- Two roles: one owns the tables and upgrades them, the other one works. Run once by a superuser,
-- by the image at its first start or by hand:
--   OWNER_PASSWORD=… WORKER_PASSWORD=… psql --dbname=support_agent --file=roles.sql
\set ON_ERROR_STOP on
\getenv owner_password OWNER_PASSWORD
\getenv worker_password WORKER_PASSWORD
CREATE ROLE support_agent_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE support_agent_worker LOGIN PASSWORD :'worker_password';
SELECT current_database() AS here \gset
ALTER DATABASE :"here" OWNER TO support_agent_owner;
REVOKE ALL ON DATABASE :"here" FROM PUBLIC;
GRANT CONNECT ON DATABASE :"here" TO support_agent_worker;
ALTER SCHEMA public OWNER TO support_agent_owner;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
