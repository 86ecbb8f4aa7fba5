-- Blanks at the end never count, case by the collation, length in UTF-16 units.
SELECT CASE WHEN N'job' = N'job  ' THEN 1 ELSE 0 END, CASE WHEN N'job' = N'JOB' COLLATE Latin1_General_100_BIN2 THEN 1 ELSE 0 END,
	CASE WHEN N'job' = N'JOB' COLLATE SQL_Latin1_General_CP1_CI_AS THEN 1 ELSE 0 END, DATALENGTH(N'job  '), LEN(N'job  ');
GO
SELECT LEFT(N'a🔒b' COLLATE Latin1_General_100_BIN2, 3), DATALENGTH(N'🔒');
GO
-- A DECLARE cuts silently.
DECLARE @short NVARCHAR(3) = N'abcdef'; SELECT @short;
GO
SELECT CASE WHEN NULLIF(N'  ', N'') IS NULL THEN 1 ELSE 0 END;
